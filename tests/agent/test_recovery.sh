#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_recovery.sh KILL|STOP|TERM [ring|direct]: one of three workers gets the signal while they train. The other two go
# on; the lost one is started again (or wakes up) and comes back; all three end with the model of an undisturbed run.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

signal=${1:?a signal}
exchange=${2:-direct}
victim=${3:-2}
namespaces 3
make_key
train_options 3
export MUSTER_EPOCHS=3 MUSTER_STEPS=200 MUSTER_EXCHANGE=$exchange

start() { # start I [ARGS...]
    local i=$1
    shift
    worker "$i" ${STATE:+--state "$work/state$i"} "$@"
    pid_of[i]=$last_pid
}

for i in 1 2 3; do
    start "$i"
done
others=()
for i in 1 2 3; do
    [ "$i" -eq "$victim" ] || others+=("$i")
    wait_for 20 "$work/w$i.out" '"event":"first_step"'
done
kill "-$signal" "${pid_of[victim]}"
for i in "${others[@]}"; do
    wait_for 10 "$work/w$i.out" '"event":"recovered"'
done
case $signal in
KILL) must_end "${pid_of[victim]}" 1 137 "w$victim" ;;
TERM) must_end "${pid_of[victim]}" 6 143 "w$victim" ;;
STOP) kill -CONT "${pid_of[victim]}" ;;
esac
if [ "$signal" != STOP ]; then
    cp "$work/w$victim.out" "$work/w$victim-first.out"
    start "$victim"
fi
for i in 1 2 3; do
    finish "${pid_of[i]}" 50
    [ "$status" -eq 0 ] || fail "w$i ended with status $status"
done
for i in 1 2 3; do
    digest_of[i]=$(field "$work/w$i.out" done digest)
done
[ "${digest_of[1]}" = "${digest_of[2]}" ] && [ "${digest_of[1]}" = "${digest_of[3]}" ] || fail "the models differ"
jq -c 'select(.event == "recovered")' "$work/w${others[0]}.out"
