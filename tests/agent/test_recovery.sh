#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_recovery.sh KILL|STOP|TERM direct|ring I: worker I of three gets the signal while they train. The other two go on;
# the lost one is started again (or wakes up) and comes back; all three end with the same model, which with the direct
# exchange is to the bit that of an undisturbed run.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

signal=${1:?a signal}
exchange=${2:?direct or ring}
victim=${3:?1 to 3}
namespaces 4
make_key
train_options 3
export MUSTER_EPOCHS=2 MUSTER_STEPS=60 MUSTER_EXCHANGE=$exchange

start() { # start I [ARGS...]
    local i=$1
    shift
    worker "$i" --state "$work/state$i" "$@"
    pid_of[i]=$last_pid
}

for i in 1 2 3; do
    start "$i"
done
# One worker does the shards of three, and nothing happens to it.
agent undisturbed 4 train "${common[@]}" --workers 1:3 --cluster undisturbed --out "$work/undisturbed"
undisturbed=$last_pid
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
    finish "${pid_of[i]}" 100
    [ "$status" -eq 0 ] || fail "w$i ended with status $status"
done
for i in 1 2 3; do
    digest_of[i]=$(field "$work/w$i.out" done digest)
done
[ "${digest_of[1]}" = "${digest_of[2]}" ] && [ "${digest_of[1]}" = "${digest_of[3]}" ] || fail "the models differ"
must_end "$undisturbed" 100 0 "the undisturbed one"
digest=$(field "$work/undisturbed.out" done digest)
[ "$exchange" = ring ] || [ "$digest" = "${digest_of[1]}" ] || fail "the model is not that of an undisturbed run"
[ -z "$(find "$work"/state* -type f)" ] || fail "state of a finished job stays behind: $(find "$work"/state* -type f)"
jq -c 'select(.event == "recovered")' "$work/w${others[0]}.out"
