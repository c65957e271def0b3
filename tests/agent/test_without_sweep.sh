#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# --peers finds its peers without a sweep, also on ports of their own; --standalone needs no network at all.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

namespaces 3
make_key
train_options 3
peers=10.99.0.1,10.99.0.2:7171,10.99.0.3
worker 1 --peers "$peers"
pid_of[1]=$last_pid
worker 2 --peers "$peers" --port 7171
pid_of[2]=$last_pid
worker 3 --peers "$peers"
pid_of[3]=$last_pid
for i in 1 2 3; do
    must_end "${pid_of[i]}" 20 0 "w$i"
    [ "$(field "$work/w$i.out" view rank)" -eq $((i - 1)) ] || fail "w$i does not have the rank of its address"
    grep -q '"event":"sweep"' "$work/w$i.out" && fail "w$i swept although it knew its peers"
    [ "$(field "$work/w$i.out" start address)" = "10.99.0.$i" ] || fail "w$i is not where its peer address is"
    [ "$(field "$work/w$i.out" start subnet)" = "10.99.0.0/24" ] || fail "w$i does not tell its subnet"
done
worker 1 --peers 10.99.0.2,10.99.0.3,10.99.0.4
must_end "$last_pid" 5 2 "an agent that is not among its peers"

ip -n "$prefix-1" link set eth0 down
ip -n "$prefix-1" link set lo down
agent alone 1 train "${common[@]}" --workers 1 --standalone --out "$work/alone"
must_end "$last_pid" 20 0 "the agent alone"
[ "$(field "$work/alone.out" done steps)" -eq 3 ] || fail "the agent alone did not make three steps"
[ -s "$work/alone/model.safetensors" ] && [ -s "$work/alone/history-alone.csv" ] || fail "the agent alone left no result"
echo "peers by address, and one alone"
