#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_recovery.sh KILL|STOP|TERM EXCHANGE I [WIRE [long]]: worker I of three gets the signal while they train. The other
# two go on; the lost one is started again (or wakes up) and comes back; all three end with the same model, which with the
# exchanges direct and factors is to the bit that of an undisturbed run. `long`: only with MUSTER_TEST_LONG.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

signal=${1:?a signal}
exchange=${2:?what --exchange takes}
victim=${3:?1 to 3}
export MUSTER_WIRE=${4:-f32}
if [ "${5:-}" = long ] && [ -z "${MUSTER_TEST_LONG:-}" ]; then
    echo "skipped: scripts/test.sh --long runs it"
    exit 77
fi
namespaces 4
make_key
train_options 3
# With the small model as long as with the other; and a congestion control that is no kernel's own choice.
export MUSTER_EPOCHS=2 MUSTER_STEPS=${MUSTER_TEST_MODEL:+150} MUSTER_EXCHANGE=$exchange MUSTER_CONGESTION=reno
: "${MUSTER_STEPS:=60}"

for i in 1 2 3; do
    surviving "$i"
done
undisturbed 4 3
others=()
for i in 1 2 3; do
    [ "$i" -eq "$victim" ] || others+=("$i")
    wait_for 20 "$work/w$i.out" '"event":"first_step"'
done
told=$(inside 1 ss -tinH state established | grep -cw reno) || true
[ "$told" -ge 2 ] || fail "a worker has $told connections with the congestion control that it was told, not 2 or more"
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
    surviving "$victim"
fi
if [ "$exchange" = direct ] || [ "$exchange" = factors ]; then
    all_finish 1 2 3
else
    for i in 1 2 3; do
        must_end "${pid_of[$i]}" 100 0 "w$i"
        [ "$(field "$work/w$i.out" done digest)" = "$(field "$work/w1.out" done digest)" ] || fail "the models differ"
    done
fi
jq -c 'select(.event == "recovered")' "$work/w${others[0]}.out"
