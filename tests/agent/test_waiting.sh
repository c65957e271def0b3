#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Waiting: said every 2 s with the reasons why others do not count, over when the last one comes, limited by a deadline,
# ended by a signal; and a worker too many is told so.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

namespaces 5
make_key

# Nobody else comes: exit 4 after the time that was given, and the reason counts those who were there.
train_options 2
worker 4 --wait 1s --cluster lonely
must_end "$last_pid" 5 4 w4
has_event "$work/w4.out" failed reason "1 of 2 workers" || fail "w4 does not say how many it found"

train_options 3
worker 1
pid_of[1]=$last_pid
worker 2
pid_of[2]=$last_pid
worker 5 --seed 2 # another job
pid_of[5]=$last_pid
wait_for 10 "$work/w1.out" '"event":"waiting"'
for i in 1 2; do
    until has_event "$work/w$i.out" waiting missing "w5 runs another job"; do
        [ "$SECONDS" -lt 15 ] || fail "w$i does not name the worker of another job"
        read -r -t 0.1 <> <(:) || true
    done
    has_event "$work/w$i.out" waiting have 2 || fail "w$i does not say that it has two of three"
done
waits=$(jq -s '[.[] | select(.event == "waiting") | .t] | [.[1:], .[:-1]] | transpose | map(.[0] - .[1]) | map(select(. < 1.8 or . > 3)) | length' "$work/w1.out")
[ "$waits" -eq 0 ] || fail "w1 does not say every 2 s that it waits"

# Stopped while it waits: the others wait on.
agent w3-first 3 train "${common[@]}" --seed 3 --out "$work/w3"
wait_for 10 "$work/w3-first.out" '"event":"start"'
kill -TERM "$last_pid"
must_end "$last_pid" 5 143 "w3, stopped while it waited"
for i in 1 2; do
    kill -0 "${pid_of[i]}" 2>/dev/null || fail "w$i ended although w3 only stopped waiting"
done

worker 3
pid_of[3]=$last_pid
for i in 1 2 3; do
    must_end "${pid_of[i]}" 15 0 "w$i"
done
kill -INT "${pid_of[5]}"
must_end "${pid_of[5]}" 5 130 w5
grep -q '"event":"view"' "$work/w5.out" && fail "a worker of another job got into a view"
echo "waiting ended with the last worker"
