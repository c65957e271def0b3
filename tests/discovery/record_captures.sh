#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Records data/arp-busy.pcap and data/arp-cut.pcap anew: a real sweep on a bridge that exists only for this, among
# machines that do what machines do. Needs root, tcpdump, python3 and a built muster-agent. What came of it is written
# down in test_captures.c, which has to be changed with them.
#
#   record_captures.sh MUSTER_AGENT
#
#   10.9.0.100  02:00:00:00:00:64   the scanner, whose side is recorded; swept is 10.9.0.64/26
#   10.9.0.65   02:00:00:00:00:65   a host; sends everybody a gratuitous reply and request, and IPv6 and UDP broadcasts
#   10.9.0.70   ...:70, ...:71      two hosts with one address
#   10.9.0.80   02:00:00:00:00:80   a host that answers for 10.9.0.90 to .93, too (proxy ARP)
#   10.9.0.110  02:00:00:00:00:6e   a host that also answers in a VLAN, and for 10.9.0.200, which was not asked for
set -euo pipefail

agent=$(realpath "${1:?usage: record_captures.sh MUSTER_AGENT}")
data=$(cd "$(dirname "$0")" && pwd)/data
work=$(mktemp -d)
prefix="rec$$"
pids=()

cleanup() {
    local pid name
    for pid in "${pids[@]}"; do
        kill "$pid" 2>/dev/null || true
    done
    wait 2>/dev/null || true
    for name in $(ip netns list | awk -v p="$prefix-" 'index($1, p) == 1 { print $1 }'); do
        ip netns delete "$name"
    done
    rm -rf "$work"
}
trap cleanup EXIT

ip netns add "$prefix-fabric"
ip -n "$prefix-fabric" link add br0 type bridge forward_delay 0
ip -n "$prefix-fabric" link set br0 up

# machine NAME MAC ADDRESS...
machine() {
    local name=$1 mac=$2 address
    shift 2
    ip netns add "$prefix-$name"
    ip -n "$prefix-$name" link set lo up
    ip -n "$prefix-$name" link add eth0 address "$mac" type veth peer name "$name" netns "$prefix-fabric"
    ip -n "$prefix-fabric" link set "$name" master br0 up
    for address in "$@"; do
        ip -n "$prefix-$name" addr add "$address" dev eth0
    done
    ip -n "$prefix-$name" link set eth0 up
}

machine scanner 02:00:00:00:00:64 10.9.0.100/24
machine plain 02:00:00:00:00:65 10.9.0.65/24
machine twin1 02:00:00:00:00:70 10.9.0.70/24
machine twin2 02:00:00:00:00:71 10.9.0.70/24
machine proxy 02:00:00:00:00:80 10.9.0.80/24 10.9.0.90/32 10.9.0.91/32 10.9.0.92/32 10.9.0.93/32
machine odd 02:00:00:00:00:6e 10.9.0.110/24

# Frames that no kernel sends by itself; the second argument is who sends.
cat >"$work/send.py" <<'PY'
import socket, struct, sys
OURS, SCANNER = bytes.fromhex(sys.argv[2]), bytes.fromhex("020000000064")
def ip(text): return socket.inet_aton(text)
def arp(to, operation, sender, target_mac, target, tag=b""):
    return (to + OURS + tag + b"\x08\x06" + struct.pack("!HHBBH", 1, 0x0800, 6, 4, operation)
            + OURS + ip(sender) + target_mac + ip(target))
everybody = b"\xff" * 6
frames = {
    "plain": [arp(everybody, 2, "10.9.0.65", everybody, "10.9.0.65"), arp(everybody, 1, "10.9.0.65", bytes(6), "10.9.0.65"),
              bytes.fromhex("333300000001") + OURS + b"\x86\xdd" + bytes.fromhex("6000000000083aff") + bytes(16) + b"\xff\x02" + bytes(13) + b"\x01" + b"\x87" + bytes(7),
              everybody + OURS + b"\x08\x00" + bytes.fromhex("4500001c000000004011") + bytes(2) + ip("10.9.0.65") + ip("10.9.0.255") + struct.pack("!HHHH", 68, 67, 8, 0)],
    "odd": [arp(SCANNER, 2, "10.9.0.111", SCANNER, "10.9.0.100", b"\x81\x00\x00\x05"), arp(SCANNER, 2, "10.9.0.200", SCANNER, "10.9.0.100"),
            arp(SCANNER, 2, "10.9.0.112", SCANNER, "10.9.0.101")],
}
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("eth0", 0))
for frame in frames[sys.argv[1]]:
    s.send(frame)
PY

record() { # record FILE SNAP
    ip netns exec "$prefix-scanner" tcpdump --immediate-mode -U -n -i eth0 -s "$2" -w "$data/$1" 2>"$work/log" &
    pids+=("$!")
    until grep -q 'listening on' "$work/log" 2>/dev/null; do read -r -t 0.05 <> <(:) || true; done
    ip netns exec "$prefix-plain" python3 "$work/send.py" plain 020000000065
    ip netns exec "$prefix-odd" python3 "$work/send.py" odd 02000000006e
    ip netns exec "$prefix-scanner" "$agent" scan --insecure --user none --subnet 10.9.0.64/26 >"$work/table"
    ip netns exec "$prefix-odd" python3 "$work/send.py" odd 02000000006e
    kill -INT "${pids[-1]}"
    wait "${pids[-1]}" || true
}

# Until every machine's port of the bridge carries.
until ip netns exec "$prefix-scanner" "$agent" scan --insecure --user none --subnet 10.9.0.64/26 2>/dev/null |
    awk '$1 ~ /^10/ { n++ } END { exit n < 9 }'; do read -r -t 0.1 <> <(:) || true; done
record arp-busy.pcap 128
record arp-cut.pcap 40
# Connections of the scan's hellos are of no use here.
for file in arp-busy.pcap arp-cut.pcap; do
    tcpdump -n -r "$data/$file" -w "$work/part" 'not tcp' 2>/dev/null
    mv "$work/part" "$data/$file"
    chmod 644 "$data/$file"
done
cat "$work/table"
