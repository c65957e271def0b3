#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One of three workers is cut off, and nobody's connections close: silence alone tells. The two others go on, the one
# that is alone waits; healed, it joins again in the same process. Then the same with a cut between two of them only,
# which the third one does not see. The model is that of an undisturbed run.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

namespaces 4
make_key
train_options 3
export MUSTER_EPOCHS=2 MUSTER_STEPS=80

undisturbed 4 3
for i in 1 2 3; do
    surviving "$i"
done
for i in 1 2 3; do
    wait_for 20 "$work/w$i.out" '"event":"first_step"'
done
ip -n "$prefix-fabric" link set v1 down
wait_for 10 "$work/w2.out" '"event":"recovered".*"world":2'
wait_for 10 "$work/w1.out" '"event":"waiting".*"quorum":true'
[ "$(field "$work/w2.out" lost lost)" = w1 ] || fail "w2 does not say that w1 is lost"
[ "$(field "$work/w2.out" recovered 'detected_ms | floor')" -le 2500 ] || fail "the silence was noticed late"
ip -n "$prefix-fabric" link set v1 up
wait_for 20 "$work/w1.out" '"event":"recovered".*"world":3'

# A route to nowhere: only w2 and w3 do not hear each other.
views=$(jq -s 'map(select(.event == "view")) | length' "$work/w1.out")
ip -n "$prefix-2" route add blackhole 10.99.0.3/32
deadline=$((SECONDS + 15))
until [ "$(jq -s 'map(select(.event == "recovered" and .world == 2)) | length' "$work/w1.out")" -ge 1 ]; do
    [ "$SECONDS" -lt "$deadline" ] || fail "w1 does not go on with one of the two"
    read -r -t 0.05 <> <(:) || true
done
[ "$(jq -s 'map(select(.event == "view")) | length' "$work/w1.out")" -gt "$views" ] || fail "no view of two"
ip -n "$prefix-2" route del blackhole 10.99.0.3/32
all_finish 1 2 3
echo "cut off, half cut off, and back: $(jq -s 'map(select(.event == "view")) | length' "$work/w1.out") views"
