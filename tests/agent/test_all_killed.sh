#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All three workers are killed, twice: once when two of them have a later checkpoint than the third one, whose disk is
# lost as well. Started again, they go on from the newest checkpoint, and end with the model of an undisturbed run. A
# run of another name begins anew.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

namespaces 4
make_key
train_options 3
export MUSTER_EPOCHS=2 MUSTER_STEPS=100 MUSTER_CHECKPOINT_STEPS=20

start_all() { # start_all NAME ARGS...
    local name=$1 i
    shift
    for i in 1 2 3; do
        agent "w$i" "$i" train "${common[@]}" --out "$work/w$i" --state "$work/state$i" "$@"
        pid_of[i]=$last_pid
    done
}

kill_all() {
    kill -KILL "${pid_of[@]}"
    local i
    for i in 1 2 3; do
        finish "${pid_of[i]}" 5
    done
}

agent undisturbed 4 train "${common[@]}" --workers 1:3 --cluster undisturbed --out "$work/undisturbed"
undisturbed=$last_pid

start_all first --run one
wait_for 40 "$work/w1.out" '"event":"checkpoint".*"step":40'
wait_for 40 "$work/w2.out" '"event":"checkpoint".*"step":40'
kill_all
rm -rf "$work/state3"

start_all second --run one
for i in 1 2 3; do
    wait_for 20 "$work/w$i.out" '"event":"first_step"'
done
for i in 1 2; do
    [ "$(field "$work/w$i.out" restored step)" -ge 40 ] || fail "w$i does not begin with its checkpoint"
done
grep -q '"event":"restored"' "$work/w3.out" && fail "w3 restored what it does not have"
[ "$(field "$work/w3.out" state took)" = true ] || fail "w3 did not take the others' state"
[ "$(field "$work/w1.out" view view)" -gt 1 ] || fail "the view before is forgotten"
wait_for 40 "$work/w1.out" '"event":"checkpoint"'
kill_all

start_all third --run one
for i in 1 2 3; do
    must_end "${pid_of[i]}" 80 0 "w$i"
done
must_end "$undisturbed" 80 0 "the undisturbed one"
digest=$(field "$work/undisturbed.out" done digest)
for i in 1 2 3; do
    [ "$(field "$work/w$i.out" done digest)" = "$digest" ] || fail "w$i does not end with the undisturbed model"
done

# What another run left is not taken up.
start_all fourth --run two
wait_for 40 "$work/w1.out" '"event":"checkpoint"'
kill_all
start_all fifth --run three
for i in 1 2 3; do
    wait_for 20 "$work/w$i.out" '"event":"first_step"'
    [ "$(field "$work/w$i.out" first_step step)" -eq 1 ] || fail "w$i begins with the state of another run"
done
echo "all killed twice, and the same model in the end"
