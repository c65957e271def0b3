#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two of three workers are killed at once: the third one pauses, says what it waits for, and goes on when one of them is
# back; the last one joins again, too. The model is that of an undisturbed run.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

namespaces 4
make_key
train_options 3
export MUSTER_EPOCHS=2 MUSTER_STEPS=60

undisturbed 4 3
for i in 1 2 3; do
    surviving "$i"
done
for i in 1 2 3; do
    wait_for 20 "$work/w$i.out" '"event":"first_step"'
done
kill -KILL "${pid_of[1]}" "${pid_of[3]}"
finish "${pid_of[1]}" 5
finish "${pid_of[3]}" 5
wait_for 10 "$work/w2.out" '"event":"waiting".*"quorum":true'
has_event "$work/w2.out" waiting missing w1 || fail "w2 does not say whom it waits for"
inside 2 "$MUSTER_AGENT" health --port 7070 | grep -q '"state":"paused"' || fail "health does not say that it pauses"
before=$(jq -s 'map(select(.event == "progress")) | length' "$work/w2.out")
deadline=$((SECONDS + 15))
until [ "$(jq -s 'map(select(.event == "waiting" and .quorum)) | length' "$work/w2.out")" -ge 3 ]; do
    [ "$SECONDS" -lt "$deadline" ] || fail "w2 does not go on to say what it waits for"
    read -r -t 0.05 <> <(:) || true
done
[ "$(jq -s 'map(select(.event == "progress")) | length' "$work/w2.out")" -eq "$before" ] || fail "w2 trains alone"

surviving 3
wait_for 20 "$work/w2.out" '"event":"recovered".*"world":2'
surviving 1
wait_for 20 "$work/w2.out" '"event":"recovered".*"world":3'
all_finish 1 2 3
echo "paused, and went on with $(jq -s 'map(select(.event == "view")) | length' "$work/w2.out") views"
