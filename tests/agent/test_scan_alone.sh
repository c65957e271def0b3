#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `scan` without any worker to help: hosts of a file, without the right to capture, in a subnet that is too large for
# TCP, on the second of two networks, past many hosts that are silent, and when its time is over.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

namespaces 6
make_key
scan=(scan --user none --key-file "$work/key")
run_scan() { # run_scan NAME STATUS ARGS...: in namespace 5, its output in $work/NAME and .err
    local name=$1 expected=$2
    shift 2
    status=0
    inside 5 "$@" >"$work/$name" 2>"$work/$name.err" || status=$?
    [ "$status" -eq "$expected" ] || fail "$name: status $status, not $expected: $(cat "$work/$name.err")"
}

mkdir "$work/store"
agent collector 3 collect --subnet 10.99.0.0/24 --user none --key-file "$work/key" --out "$work/store"
collector=$last_pid
wait_for 20 "$work/collector.out" listening
# Listeners that accept and are silent: each costs its whole second, and all together no more than that.
for i in 1 2 4; do
    background "$i" python3 -c '
import socket, sys
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("0.0.0.0", 7070)); s.listen(); print("ready", flush=True); kept = []
while True:
    kept.append(s.accept())' >"$work/mute$i.out"
    for ((n = 0; n < 4; n++)); do
        inside "$i" ip addr add "10.99.0.$((100 + 10 * i + n))/32" dev eth0
    done
done
for i in 1 2 4; do
    wait_for 10 "$work/mute$i.out" ready
done

# Fifteen silent hosts are greeted at the same time.
run_scan all 0 "$MUSTER_AGENT" "${scan[@]}" --subnet 10.99.0.0/24 --wait 8s --format json --xml "$work/all.xml"
[ "$(jq '[.hosts[] | select(.note == "accepts connections, and says nothing")] | length' "$work/all")" -eq 15 ] ||
    fail "not fifteen silent hosts in: $(cat "$work/all")"
[ "$(jq -r '.hosts[] | select(.role == "collector") | .address' "$work/all")" = 10.99.0.3 ] || fail "no collector in: $(cat "$work/all")"
[ "$(jq .complete "$work/all")" = true ] || fail "the scan did not come to its end"

# Its time is over in their middle: what is known is printed, and the status says so.
run_scan short 4 "$MUSTER_AGENT" "${scan[@]}" --subnet 10.99.0.0/24 --wait 5ms --format json
[ "$(jq .complete "$work/short")" = false ] || fail "a scan that was cut says that it is complete"

# Without CAP_NET_RAW, by TCP; the MAC is not known then.
run_scan tcp 0 setpriv --bounding-set -net_raw "$MUSTER_AGENT" "${scan[@]}" --subnet 10.99.0.0/24 --wait 8s
grep -qE '^10\.99\.0\.3 +- +open +[0-9.]+ +collector +collector ' "$work/tcp" || fail "no collector in: $(cat "$work/tcp")"
grep -q 'tcp sweep of 253 addresses' "$work/tcp.err" || fail "no TCP sweep: $(cat "$work/tcp.err")"

# The hosts of a file: its own, and one as nmap writes it, with a host that is not there and one that is far away.
MUSTER_FROM_XML="$work/all.xml" run_scan own 0 "$MUSTER_AGENT" "${scan[@]}" --subnet 10.99.0.0/24 --format json
[ "$(jq '.hosts | length' "$work/own")" -eq "$(jq '.hosts | length' "$work/all")" ] || fail "hosts lost in: $(cat "$work/own")"
# What is not known is left out, what the file knows is not.
jq -e '.method == "file" and .complete and (has("addresses") or has("answered") or has("ms") | not)' "$work/own" >/dev/null ||
    fail "figures of a sweep that was none in: $(cat "$work/own")"
for name in all own; do
    jq -e '.hosts[] | select(.self) | .port == "self" and (has("rtt_ms") | not)' "$work/$name" >/dev/null || fail "not itself in $name: $(cat "$work/$name")"
    jq -e '[.hosts[] | has("mac")] | all' "$work/$name" >/dev/null || fail "a host without its MAC in $name: $(cat "$work/$name")"
    jq -e '[.hosts[] | select(has("rtt_ms")) | .rtt_ms > 0] | all' "$work/$name" >/dev/null || fail "a time that was not measured in $name: $(cat "$work/$name")"
done
cat >"$work/nmap.xml" <<'XML'
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE nmaprun>
<nmaprun scanner="nmap" args="nmap -oX - -p 7070 -n 10.99.0.0/24" start="1795835994" version="7.93" xmloutputversion="1.05">
<host><status state="up" reason="arp-response" reason_ttl="0"/><address addr="10.99.0.3" addrtype="ipv4"/>
<ports><port protocol="tcp" portid="7070"><state state="open" reason="syn-ack" reason_ttl="0"/></port></ports></host>
<host><status state="up" reason="arp-response" reason_ttl="0"/><address addr="10.99.0.99" addrtype="ipv4"/><address addr="02:42:0a:63:00:63" addrtype="mac"/></host>
<host><status state="up" reason="arp-response" reason_ttl="0"/><address addr="192.0.2.1" addrtype="ipv4"/></host>
</nmaprun>
XML
MUSTER_FROM_XML="$work/nmap.xml" run_scan nmap 0 "$MUSTER_AGENT" "${scan[@]}" --subnet 10.99.0.0/24 --format json
[ "$(jq -r '[.hosts[].address] | join(" ")' "$work/nmap")" = "10.99.0.3 10.99.0.5" ] || fail "not the file's hosts in: $(cat "$work/nmap")"
MUSTER_FROM_XML="$work/key" run_scan broken 2 "$MUSTER_AGENT" "${scan[@]}" --subnet 10.99.0.0/24
grep -q "$work/key:[0-9]*: not XML" "$work/broken.err" || fail "a file that is no XML is not named: $(cat "$work/broken.err")"

# A subnet that is too large for TCP: the part around this host, and whom the kernel knows beyond it.
for i in 3 5; do
    inside "$i" ip addr add "10.60.$((10 * i)).1/16" dev eth0
done
kill -TERM "$collector"
must_end "$collector" 5 0 "the collector"
agent wide 3 collect --subnet 10.60.0.0/16 --user none --key-file "$work/key" --out "$work/store"
wait_for 20 "$work/wide.out" listening
inside 5 ping -c 1 -W 5 10.60.30.1 >/dev/null 2>&1 || inside 5 bash -c 'exec 3<>/dev/tcp/10.60.30.1/7070' || fail "no way to 10.60.30.1"
run_scan large 0 setpriv --bounding-set -net_raw "$MUSTER_AGENT" "${scan[@]}" --subnet 10.60.0.0/16 --wait 40s --format json
[ "$(jq -r .subnet "$work/large")" = 10.60.48.0/22 ] || fail "not the part around 10.60.50.1: $(cat "$work/large")"
[ "$(jq -r '.hosts[] | select(.role == "collector") | .address' "$work/large")" = 10.60.30.1 ] || fail "a neighbour beyond it is not found: $(cat "$work/large")"

# Several networks: the first one leads to nobody, the agents are on the second.
inside 5 ip link add eth1 type veth peer name eth1p
inside 5 ip link set eth1p up
inside 5 ip addr add 10.1.0.5/24 dev eth1
inside 5 ip link set eth1 up
run_scan second 0 "$MUSTER_AGENT" "${scan[@]}" --format json --wait 20s
[ "$(jq -r .interface "$work/second")" = eth0 ] || fail "not the network with agents: $(cat "$work/second")"
MUSTER_INTERFACE='!eth0' run_scan named 0 "$MUSTER_AGENT" "${scan[@]}" --format json
[ "$(jq -r .interface "$work/named")" = eth1 ] || fail "an interface that is not wanted was used: $(cat "$work/named")"
MUSTER_INTERFACE=eth9 run_scan nowhere 2 "$MUSTER_AGENT" "${scan[@]}"
grep -q 'attached are: eth0' "$work/nowhere.err" || fail "what is attached is not named: $(cat "$work/nowhere.err")"
echo "hosts of files, of large subnets and of the second network are found"
