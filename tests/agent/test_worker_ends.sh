#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_worker_ends.sh KILL|STOP|TERM: one of three workers gets the signal while they train. The other two end within
# 5 s, with exit code 1 and an event that names the slot and says what happened.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

signal=${1:?a signal}
namespaces 3
make_key
train_options 3
for i in 1 2 3; do
    worker "$i" --epochs 1000 --steps 1000
    pid_of[i]=$last_pid
done
for i in 1 2 3; do
    wait_for 20 "$work/w$i.out" '"event":"first_step"'
done
kill "-$signal" "${pid_of[2]}"
start=${EPOCHREALTIME/./}
for i in 1 3; do
    must_end "${pid_of[i]}" 6 1 "w$i"
done
took_ms=$(((${EPOCHREALTIME/./} - start) / 1000))
[ "$took_ms" -le 5000 ] || fail "the others took $took_ms ms to end"
for i in 1 3; do
    has_event "$work/w$i.out" failed reason w2 || fail "w$i does not name the lost worker"
    [ "$(wc -l <"$work/w$i.err")" -eq 1 ] || fail "w$i says more than one line"
done
case $signal in
KILL) must_end "${pid_of[2]}" 1 137 w2 ;;
TERM)
    must_end "${pid_of[2]}" 5 143 w2
    has_event "$work/w1.out" failed reason "was told to stop" || fail "w1 does not say that w2 was told to stop"
    has_event "$work/w3.out" failed reason "was told to stop" || fail "w3 does not say that w2 was told to stop"
    ;;
STOP)
    # What was frozen finds itself alone when it goes on.
    kill -CONT "${pid_of[2]}"
    must_end "${pid_of[2]}" 5 1 w2
    has_event "$work/w2.out" failed reason "" || fail "w2 does not say why it ends"
    ;;
esac
for i in 1 2 3; do
    [ ! -e "$work/w$i/model.safetensors" ] || fail "w$i left a model that is not finished"
done
echo "SIG$signal: the others ended in $took_ms ms"
