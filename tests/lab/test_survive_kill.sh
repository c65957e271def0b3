#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Workers are killed while they train, one at a time, of any rank, the chief too, at random steps: five times, or a
# hundred with MUSTER_TEST_LONG, in as many trainings as that takes. The others go on each time, the killed one comes
# back, and each training ends with the bits of a run that nothing happened to.
set -euo pipefail
kills=5
if [[ -n ${MUSTER_TEST_LONG:-} ]]; then kills=100 epochs=400; fi
# shellcheck source=tests/lab/survive.sh
source "$(dirname "$0")/survive.sh"

survive_test kill

# A kill takes some ten seconds until all are back; the last fifth of a training is left alone.
time_for_a_kill() { (($(steps_done kill) < epochs * steps * 4 / 5)); }

# One training, and as many kills as it lasts for.
training() {
    local lost=() times
    survive_begin kill -e MUSTER_SUBNET=10.60.1.0/24
    while ((killed < kills)) && time_for_a_kill; do
        # All ranks in turn, so that the chief is among them; the moment is chance.
        rank_of $((killed % 3)) kill
        sleep "0.$((RANDOM % 10))$((RANDOM % 10))"
        step "kill $((killed + 1)): rank $((killed % 3)), $slot on $node"
        kill -KILL "$pid"
        lost+=("$slot")
        times=$(printf '%s\n' "${lost[@]}" | grep -cFx "$slot")
        wait_until 30 "the loss of $slot to be told" told_lost "$slot" "$times" || { output_of kill && fail "nobody lost $slot"; }
        await_view kill 3
        ((killed += 1))
    done
    ((${#lost[@]})) || fail "a training of $epochs epochs is too short for a kill"
    step "it finishes, with the undisturbed run's result"
    survive_finish kill 900 "${lost[@]}"
}

told_lost() { (($(grep -cE "^$1 lost: " "$test_folder/kill.err") >= $2)); }

killed=0
while ((killed < kills)); do
    step "a training"
    training
done
