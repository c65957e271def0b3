#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A fourth worker of a job of three is refused with a line that says why, whether it comes late or with the others.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

namespaces 4
make_key
train_options 3
for i in 1 2 3; do
    worker "$i" --epochs 1000 --steps 1000
    pid_of[i]=$last_pid
done
for i in 1 2 3; do
    wait_for 20 "$work/w$i.out" '"event":"first_step"'
done
worker 4 --epochs 1000 --steps 1000
must_end "$last_pid" 10 1 "the fourth, late"
has_event "$work/w4.out" failed reason "no place left" || fail "the fourth does not say why it ends"
[ "$(wc -l <"$work/w4.err")" -eq 1 ] || fail "the fourth says more than one line"
for i in 1 2 3; do
    kill -0 "${pid_of[i]}" 2>/dev/null || fail "w$i was disturbed by the fourth"
done
# One that is started twice under one name waits, in nobody's way.
agent w2 4 train "${common[@]}" --epochs 1000 --steps 1000 --out "$work/again" --wait 2s
must_end "$last_pid" 10 4 "the second of one name"
grep -q "no view came about among the 4 workers found in 2 s: .* a worker of the name w2 already" "$work/w2.err" ||
    fail "the second of one name does not say why it ends"
for i in 1 3; do
    [ "$(jq -s 'map(select(.event == "view")) | length' "$work/w$i.out")" -eq 1 ] || fail "w$i was disturbed by it"
done
kill -TERM "${pid_of[@]}"
for i in 1 2 3; do
    finish "${pid_of[i]}" 5
done

for i in 4 3 2 1; do
    agent "all$i" "$i" train "${common[@]}" --out "$work/all$i"
    pid_of[i]=$last_pid
done
done_count=0
for i in 1 2 3 4; do
    finish "${pid_of[i]}" 15
    [ "$status" -eq 0 ] && done_count=$((done_count + 1))
    [ "$status" -eq 0 ] || has_event "$work/all$i.out" failed reason "no place left" ||
        fail "all$i ended with status $status, and does not say that there was no place"
done
[ "$done_count" -eq 3 ] || fail "$done_count of four workers finished, not three"
echo "the fourth was refused both times"
