#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Three workers: each program gets its own rank, everybody's addresses and ports, and its status is returned.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

namespaces 3
make_key
cat >"$work/check.py" <<'P'
import json, os, socket
env = os.environ
rank = int(env["RANK"])
workers = json.loads(env["TF_CONFIG"])["cluster"]["worker"]
task = json.loads(env["TF_CONFIG"])["task"]
assert task == {"type": "worker", "index": rank}, task
assert len(workers) == len(set(workers)) == int(env["WORLD_SIZE"]) == int(env["MUSTER_WORLD"]) == 3
host, port = workers[rank].split(":")
assert host == f"10.99.0.{rank + 1}" == env["MUSTER_ADDRESS"]
assert f'{env["MASTER_ADDR"]}:{env["MASTER_PORT"]}' == workers[0] == env["MUSTER_CHIEF"]
assert env["LOCAL_RANK"] == "0" and env["LOCAL_WORLD_SIZE"] == "1"
assert env["GLOO_SOCKET_IFNAME"] == env["TP_SOCKET_IFNAME"] == "eth0" and env["NCCL_SOCKET_IFNAME"] == "=eth0"
assert env["MUSTER_SLOT"] == f"w{rank + 1}"
assert "MUSTER_KEY_FILE" not in env
lines = open(env["MUSTER_HOSTFILE"]).read().split("\n")
assert lines == ["10.99.0.1 slots=1", "10.99.0.2 slots=1", "10.99.0.3 slots=1", ""], lines
# The port is free, and the others reach it.
with socket.create_server((host, int(port))):
    pass
print("fine", rank, env["MUSTER_MEMBERS"])
P
workers=()
for i in 3 1 2; do
    exec_worker "$i" --workers 3 -- python3 "$work/check.py"
    workers+=("$last_pid")
done
all_end 40 0 "${workers[@]}"
for i in 1 2 3; do
    grep -q "^fine $((i - 1)) w1=10.99.0.1:[0-9]*,w2=10.99.0.2:[0-9]*,w3=10.99.0.3:[0-9]*$" "$work/w$i.out" ||
        fail "w$i was told something else"
    told "$work/w$i.err" exited status 0 || fail "w$i has no event of its program's end"
    [ "$(wc -l <"$work/w$i.out")" -eq 1 ] || fail "w$i: events went where the program's output belongs"
done
sort -u "$work"/w?.out | cut -d' ' -f3 | sort -u | [ "$(wc -l)" -eq 1 ] || fail "the workers were told different things"

# A program that is not there, and a bad command line.
inside 1 "$MUSTER_AGENT" exec --standalone --insecure -- /no/such/program 2>"$work/none.err" && fail "it was there"
inside 1 "$MUSTER_AGENT" exec --standalone --insecure -- /no/such/program 2>/dev/null || status=$?
[ "$status" -eq 127 ] || fail "a program that is not there: status $status"
inside 1 "$MUSTER_AGENT" exec --framework caffe -- true 2>/dev/null || status=$?
[ "$status" -eq 125 ] || fail "a bad option: status $status"
inside 1 "$MUSTER_AGENT" exec --workers 2 2>/dev/null || status=$?
[ "$status" -eq 125 ] || fail "no command: status $status"
# Nobody else comes.
inside 1 "$MUSTER_AGENT" exec --workers 2 --subnet 10.99.0.0/24 --key-file "$work/key" --wait 1s -- true \
    2>"$work/alone.err" || status=$?
[ "$status" -eq 125 ] || fail "too few workers: status $status"
grep -q "1 of 2 workers found" "$work/alone.err" || fail "too few workers: it does not say so"
echo "three programs were told the same"
