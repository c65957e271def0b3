#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Three workers and a collector find each other, agree, train to equal models, and hand in their files. A foreign
# listener on the agent's port and an agent with another key are seen and stay outside.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

namespaces 6
make_key
make_key other
model="$source_dir/trainer/models/mnist-cnn.json"
common=(--model "$model" --data "$source_dir/data/mnist" --workers 3 --epochs 2 --steps 5 --batch 16 --threads 1
    --subnet 10.99.0.0/24 --user none --key-file "$work/key" --wait 30s --collect)

inside 4 "$MUSTER_AGENT" health --port 7070 >/dev/null 2>&1 && fail "health said well where no agent is"
mkdir -p "$work/store"
agent collector 4 collect --cluster muster --subnet 10.99.0.0/24 --user none --key-file "$work/key" --out "$work/store"
collector=$last_pid
# A listener that is no agent: accepts, and says nothing that makes sense.
background 5 python3 -c '
import socket
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("10.99.0.5", 7070)); s.listen()
while True:
    c, _ = s.accept(); c.sendall(b"220 who is there\r\n"); c.close()' >/dev/null
agent stranger 6 train "${common[@]/$work\/key/$work/other}" --out "$work/stranger"
stranger=$last_pid
workers=()
for i in 3 1 2; do
    agent "w$i" "$i" train "${common[@]}" --out "$work/w$i"
    workers+=("$last_pid")
done
for pid in "${workers[@]}"; do
    finish "$pid" 60
    [ "$status" -eq 0 ] || fail "a worker ended with status $status"
done

for i in 1 2 3; do
    rank=$(field "$work/w$i.out" view rank)
    [ "$rank" -eq $((i - 1)) ] || fail "w$i has rank $rank: expected the order of addresses"
    [ "$(field "$work/w$i.out" view world)" -eq 3 ] || fail "w$i is not in a world of three"
    grep -q 'addr="10.99.0.5"' "$work/w$i/ips-w$i.xml" || fail "w$i did not see the foreign listener"
done
digests=$(for i in 1 2 3; do sha256sum <"$work/w$i/model.safetensors"; done | sort -u | wc -l)
[ "$digests" -eq 1 ] || fail "the three model files differ"

kill -TERM "$stranger" "$collector"
finish "$stranger" 5
[ "$status" -eq 143 ] || fail "the stranger ended with $status, not 143"
grep -q '"event":"view"' "$work/stranger.out" && fail "an agent with another key became a member"
finish "$collector" 5
[ "$status" -eq 0 ] || fail "the collector ended with $status"
[ "$(field "$work/collector.out" collected files)" -eq 7 ] || fail "the collector does not have seven files"
for file in history-w1.csv history-w2.csv history-w3.csv ips-w1.xml ips-w2.xml ips-w3.xml model.safetensors; do
    [ -s "$work/store/muster/$file" ] || fail "the collector lacks $file"
done
cmp "$work/store/muster/model.safetensors" "$work/w1/model.safetensors" || fail "the collected model differs"
echo "three workers agreed in $(field "$work/w1.out" view since_start_ms) ms, sweep $(field "$work/w1.out" sweep ms) ms"
