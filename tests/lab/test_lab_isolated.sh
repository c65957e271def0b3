#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Nothing that the lab sends can leave the machine, and cut, shape and heal do to a link what they say.
set -euo pipefail
# shellcheck source=tests/lab/lib.sh
source "$(dirname "$0")/lib.sh"

lab_test
lab_use -n 3
read -ra nodes <<<"$MUSTER_LAB_NODES"
((${#nodes[@]} >= 2)) || fail "needs two nodes"
for node in "${nodes[@]}"; do
    at_end "$(printf '%q heal %q' "$lab" "$node")"
done
fabric() { nsenter --net="$MUSTER_LAB_DIR/fabric" -- "$@"; }

# --- no way out -------------------------------------------------------------------------------------------

step "the machine sees no interface of the lab; each node's one cable ends in the fabric"
inode() { stat -Lc %i "$1"; }
index_of() { sed -n 's/^\([0-9]*\): .*/\1/p'; }
peer_of() { sed -n 's/^[0-9]*: [^@]*@if\([0-9]*\): .*/\1/p'; }
output=$(ip -o link; ip -o addr)
expect_no_line '10\.77\.0\.|: (br0|node[0-9]+)(@|:)'
for namespace in "$MUSTER_LAB_DIR/fabric" "$MUSTER_LAB_DIR"/nodes/*/net; do
    [[ $(inode "$namespace") != "$(inode /proc/self/ns/net)" ]] || fail "$namespace is the machine's own namespace"
done
for node in "${nodes[@]}"; do
    port=$(fabric ip -o link show "$node")
    cable=$("$lab" exec "$node" ip -o link show eth0)
    expect_equal "$(peer_of <<<"$cable") $(index_of <<<"$cable")" "$(index_of <<<"$port") $(peer_of <<<"$port")" "ends of $node's cable"
done

step "the fabric holds its bridge and the nodes' ports, no node has a default route"
output=$(fabric ip -o link | awk -F': ' '{ print $2 }' | cut -d@ -f1 | sort | xargs)
expect_equal "$output" "$(printf '%s\n' br0 lo "${nodes[@]}" | sort | xargs)" "interfaces of the fabric"
output=$(fabric ip route)
expect_equal "$(wc -l <<<"$output")" 1 "routes of the fabric"
expect_line '^10\.77\.0\.0/24 dev br0'
for node in "${nodes[@]}"; do
    run 10 "$lab" exec "$node" ip route
    expect_line '^10\.77\.0\.0/24 dev eth0'
    expect_no_line '^default'
done

step "an address outside is unreachable, even with a default route to the fabric"
# 192.0.2.0/24, 198.51.100.0/24: for documentation (RFC 5737). And the machine's own addresses.
outside=(192.0.2.1 198.51.100.1)
while read -r address; do outside+=("$address"); done < <(ip -o -4 addr show scope global | awk '{ sub("/.*", "", $4); print $4 }')
for address in "${outside[@]}"; do
    run 10 "$lab" exec "${nodes[0]}" bash -c ": </dev/tcp/$address/9"
    expect_status 1
    expect_line 'Network is unreachable'
done
run 10 "$lab" exec "${nodes[0]}" ip route add default via 10.77.0.254
expect_status 0
at_end "$(printf '%q exec %q ip route del default' "$lab" "${nodes[0]}") 2>/dev/null"
for address in "${outside[@]}"; do
    run 10 "$lab" exec "${nodes[0]}" timeout 1 bash -c ": </dev/tcp/$address/9"
    ((status != 0)) || fail "$address answered"
done
run 10 "$lab" exec "${nodes[0]}" ip route del default
expect_status 0

# --- links ------------------------------------------------------------------------------------------------

# transfer FROM TO MEGABYTES: prints milliseconds from the first byte sent to the last one acknowledged.
# Perl, because every Debian has it.
transfer() {
    local from=$1 to=$2 bytes=$(($3 * 1000000)) port=7999 server
    # shellcheck disable=SC2016
    local receive='my $s = IO::Socket::INET->new(Listen => 1, LocalPort => $ARGV[0], ReuseAddr => 1) or die "listen: $!"; $| = 1;
        print "listens\n"; my $c = $s->accept; my ($n, $b) = (0); while ($n < $ARGV[1]) { my $r = sysread($c, $b, 1 << 16) or die "lost"; $n += $r } syswrite($c, "k")'
    # shellcheck disable=SC2016
    local send='my $c = IO::Socket::INET->new(PeerAddr => $ARGV[0], PeerPort => $ARGV[1], Timeout => 5) or die "connect: $!";
        my ($n, $b) = (0, "x" x 65536); my $t = Time::HiRes::time();
        while ($n < $ARGV[2]) { my $l = $ARGV[2] - $n; $n += syswrite($c, $b, $l < 65536 ? $l : 65536) } sysread($c, $b, 1) == 1 or die "lost";
        printf "%d\n", 1000 * (Time::HiRes::time() - $t)'
    : >"$test_folder/server"
    timeout 60 "$lab" exec "$to" perl -MIO::Socket::INET -e "$receive" $port "$bytes" >"$test_folder/server" 2>&1 &
    server=$!
    wait_until 10 "the receiver" grep -q listens "$test_folder/server"
    timeout 60 "$lab" exec "$from" perl -MIO::Socket::INET -MTime::HiRes -e "$send" "10.77.0.${to#node}" $port "$bytes"
    wait "$server"
}

reaches() { "$lab" exec "$1" timeout 0.5 bash -c ": </dev/tcp/10.77.0.254/5000" 2>/dev/null; }
reaches_not() { ! reaches "$1"; }

step "shape: 20 MB over 100 Mbit/s take about 1.6 s, either way"
first=${nodes[0]} second=${nodes[1]}
free_ms=$(transfer "$first" "$second" 20)
run 10 "$lab" shape "$second" 100mbit
expect_status 0
run 10 "$lab" status
expect_line "^$second .* up +100Mbit"
for pair in "$first $second" "$second $first"; do
    # shellcheck disable=SC2086 # two words
    shaped_ms=$(transfer $pair 20)
    say "  $pair: $shaped_ms ms shaped, $free_ms ms free"
    # 1600 ms of bits, a few per cent of headers; a busy machine may add some.
    ((shaped_ms > 1450 && shaped_ms < 3000)) || fail "20 MB in $shaped_ms ms at 100 Mbit/s"
    ((free_ms < shaped_ms / 2)) || fail "not faster without: $free_ms ms"
done

step "cut: the node reaches nobody; heal: all is as before"
reaches "$second" || fail "$second does not reach the registry before the cut"
run 10 "$lab" cut "$second"
expect_status 0
expect_equal "$("$lab" status | awk -v node="$second" '$1 == node { print $6 }')" cut "link in the table"
reaches_not "$second" || fail "$second reaches the registry although cut"
reaches "$first" || fail "the cut of $second also hit $first"
run 10 "$lab" heal "$second"
expect_status 0
wait_until 5 "$second to reach the registry again" reaches "$second"
healed_ms=$(transfer "$first" "$second" 20)
((healed_ms < 1450)) || fail "still shaped after heal: $healed_ms ms"
run 10 "$lab" status
expect_status 0
expect_line "^$second .* up +- "
run 10 "$lab" heal "$second"
expect_status 0
