#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Two of three workers are killed at once: the third has no quorum, pauses, and goes on when Swarm has started one again.
# Then all three are killed at once: their checkpoints go on. Both times the result is that of an undisturbed run.
set -euo pipefail
# shellcheck source=tests/lab/survive.sh
source "$(dirname "$0")/survive.sh"

survive_test two all

step "two trainings"
survive_begin two -e MUSTER_SUBNET=10.60.2.0/24
survive_begin all -e MUSTER_SUBNET=10.60.3.0/24

step "two of three are killed at once"
pids_at_once=()
lost=()
for rank in 0 2; do
    rank_of "$rank" two
    pids_at_once+=("$pid")
    lost+=("$slot")
done
kill -KILL "${pids_at_once[@]}"
await_output two 30 '^paused: 1 of the 2 workers that are needed to go on'
await_view two 3

step "all three are killed at once"
says() { docker service logs --raw "$1" 2>/dev/null | grep -q "\"event\":\"$2\""; }
for service in w1 w2 w3; do
    wait_until 60 "the first checkpoint of $service" says "all_$service" checkpoint || fail "$(docker service logs --raw --tail 5 "all_$service" 2>&1)"
done
pids_at_once=()
for rank in 0 1 2; do
    rank_of "$rank" all
    pids_at_once+=("$pid")
done
kill -KILL "${pids_at_once[@]}"
for service in w1 w2 w3; do
    wait_until 60 "$service to take up its checkpoint" says "all_$service" restored || fail "$(docker service logs --raw --tail 5 "all_$service" 2>&1)"
done
await_view all 3 90

step "both finish, with the undisturbed run's result"
survive_finish two 600 "${lost[@]}"
survive_finish all 600
