#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two to five workers: three begin, two come, three are told to leave, and two go on to the end. The model is that of an
# undisturbed run with as many shards.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

namespaces 6
make_key
train_options 2:5
export MUSTER_EPOCHS=2 MUSTER_STEPS=60

undisturbed 6 5
for i in 1 2 3; do
    surviving "$i"
done
for i in 1 2 3; do
    wait_for 20 "$work/w$i.out" '"event":"view".*"world":3'
    wait_for 20 "$work/w$i.out" '"event":"first_step"'
done
for i in 4 5; do
    surviving "$i"
done
wait_for 20 "$work/w1.out" '"event":"recovered".*"world":5'
kill -TERM "${pid_of[1]}" "${pid_of[3]}" "${pid_of[5]}"
for i in 1 3 5; do
    must_end "${pid_of[$i]}" 8 143 "w$i"
done
wait_for 20 "$work/w2.out" '"event":"recovered".*"world":2'
has_event "$work/w2.out" recovered left w5 || fail "w2 does not say that w5 left"
has_event "$work/w2.out" lost lost w && fail "w2 takes one that left for lost"
all_finish 2 4
echo "three, five, two: $(jq -s 'map(select(.event == "view")) | length' "$work/w2.out") views"
