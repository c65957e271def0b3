#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Workers are killed while they train, one at a time, of any rank, the chief too, at random steps: five times, or a
# hundred with MUSTER_TEST_LONG. The others go on each time, the killed one comes back, and the model ends with the bits
# of a run that nothing happened to.
set -euo pipefail
kills=5
if [[ -n ${MUSTER_TEST_LONG:-} ]]; then kills=100 epochs=500; fi
# shellcheck source=tests/lab/survive.sh
source "$(dirname "$0")/survive.sh"

survive_test kill

step "a training"
survive_begin kill -e MUSTER_SUBNET=10.60.1.0/24
lost=()
for ((round = 0; round < kills; round++)); do
    # All ranks in turn, so that the chief is among them; the moment is chance.
    rank_of $((round % 3)) kill
    sleep "0.$((RANDOM % 10))$((RANDOM % 10))"
    step "kill $((round + 1)): rank $((round % 3)), $slot on $node"
    kill -KILL "$pid"
    lost+=("$slot")
    wait_until 30 "the loss of $slot to be told" \
        bash -c "((\$(grep -cE '^$slot lost: ' '$test_folder/kill.err') >= $(printf '%s\n' "${lost[@]}" | grep -cFx "$slot")))" ||
        { output_of kill && fail "nobody lost $slot"; }
    await_view kill 3
done

step "it finishes, with the undisturbed run's result"
survive_finish kill 900 "${lost[@]}"
