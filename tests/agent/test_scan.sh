#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `scan` prints a table, JSON and nmap's XML in which workers, a collector, a foreign listener and a host without a
# listener are told apart; `health` answers while an agent runs.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

namespaces 5
make_key
train_options 2
mkdir "$work/store"
agent collector 3 collect --subnet 10.99.0.0/24 --user none --key-file "$work/key" --out "$work/store"
pid_of[3]=$last_pid
background 4 python3 -c '
import socket
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("10.99.0.4", 7070)); s.listen(); print("ready", flush=True)
while True:
    c, _ = s.accept(); c.sendall(b"220 who is there\r\n"); c.close()' >"$work/foreign.out"
for i in 1 2; do
    worker "$i" --epochs 1000 --steps 1000
    pid_of[i]=$last_pid
done
wait_for 5 "$work/foreign.out" ready
for i in 1 2; do
    wait_for 20 "$work/w$i.out" '"event":"first_step"'
done
wait_for 5 "$work/collector.out" listening

scan=(scan --subnet 10.99.0.0/24 --user none --key-file "$work/key")
inside 5 "$MUSTER_AGENT" "${scan[@]}" --xml "$work/scan.xml" >"$work/table" 2>"$work/scan.err" || fail "scan failed: $(cat "$work/scan.err")"
grep -qE '^10\.99\.0\.1 +[0-9a-f:]{17} +open +[0-9.]+ +w1 +worker ' "$work/table" || fail "w1 is not a worker in: $(cat "$work/table")"
grep -qE '^10\.99\.0\.2 +[0-9a-f:]{17} +open +[0-9.]+ +w2 +worker ' "$work/table" || fail "w2 is not a worker in: $(cat "$work/table")"
grep -qE '^10\.99\.0\.3 +[0-9a-f:]{17} +open +[0-9.]+ +collector +collector ' "$work/table" || fail "the collector is missing in: $(cat "$work/table")"
grep -E '^10\.99\.0\.4 ' "$work/table" | grep -q worker && fail "a foreign listener is a worker in: $(cat "$work/table")"
grep -qE '^10\.99\.0\.4 .*open .*it is no muster agent' "$work/table" || fail "the foreign listener is missing in: $(cat "$work/table")"
grep -qE '^10\.99\.0\.5 .*self' "$work/table" || fail "the scanner itself is missing in: $(cat "$work/table")"
[ "$(grep -c '<host' "$work/scan.xml")" -ge 5 ] || fail "the XML lacks hosts: $(cat "$work/scan.xml")"
python3 -c 'import sys, xml.etree.ElementTree as e; r = e.parse(sys.argv[1]).getroot(); assert r.tag == "nmaprun", r.tag' "$work/scan.xml" ||
    fail "the XML is not nmap's"
inside 5 "$MUSTER_AGENT" "${scan[@]}" --format json >"$work/json" 2>/dev/null || fail "scan as JSON failed"
[ "$(jq '[.hosts[] | select(.role == "worker")] | length' "$work/json")" -eq 2 ] || fail "not two workers in: $(cat "$work/json")"

grep -q 'key file' "$work/scan.err" && fail "a key of mode 0600 is not right: $(cat "$work/scan.err")"

# Another key sees who answers, and no worker.
make_key other
chmod 666 "$work/other"
inside 5 "$MUSTER_AGENT" scan --subnet 10.99.0.0/24 --user none --key-file "$work/other" >"$work/table" 2>"$work/other.err" || fail "scan with another key failed"
grep -q 'mode 0666: any user of this machine can replace the key' "$work/other.err" || fail "nothing of the key's mode: $(cat "$work/other.err")"
grep -q worker "$work/table" && fail "a scan with another key sees workers: $(cat "$work/table")"

for i in 1 2; do
    answer=$(inside "$i" "$MUSTER_AGENT" health) || fail "health of w$i failed"
    [ "$(jq -r .state <<<"$answer")" = running ] || fail "w$i is not running: $answer"
    [ "$(jq -r .world <<<"$answer")" = 2 ] || fail "w$i has no world of two: $answer"
done
inside 3 "$MUSTER_AGENT" health >/dev/null || fail "health of the collector failed"
inside 5 "$MUSTER_AGENT" health >/dev/null 2>&1 && fail "health said well where no agent is"
# The scans and questions did not disturb anybody.
kill -0 "${pid_of[1]}" && kill -0 "${pid_of[2]}" || fail "a worker ended"
kill -TERM "${pid_of[1]}" "${pid_of[2]}" "${pid_of[3]}"
finish "${pid_of[1]}" 5
finish "${pid_of[2]}" 5
must_end "${pid_of[3]}" 5 0 "the collector"
echo "two workers, a collector and a foreign listener told apart"
