#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# `docker service scale` from 3 to 5 to 2 workers while they train: newcomers get the state from the others, those that
# Swarm stops say good-bye first, and the result is that of three workers that nobody touched.
set -euo pipefail
# The suite has minutes: this one belongs to the long campaign.
if [[ -z ${MUSTER_TEST_LONG:-} ]]; then echo "skipped: scripts/test.sh --long runs it" && exit 77; fi
# shellcheck source=tests/lab/survive.sh
source "$(dirname "$0")/survive.sh"

survive_file=$stacks/elastic.yml
survive_options=(-e MUSTER_WORKERS=2:5)
survive_test scale

step "three workers"
survive_begin scale -e MUSTER_SUBNET=10.60.7.0/24
await_view scale 3

step "five"
run 30 "$docker_program" service scale --detach scale_worker=5
expect_status 0
await_view scale 5 90
# A worker that has just joined says how far it is with its first second of steps.
all_say_their_step() {
    local table
    table=$("$muster" ps scale) || return 1
    (($(grep -cE "scale_worker\\.[1-5] .* training +[0-9]+ +[0-4] +[0-9]+/[0-9]+" <<<"$table") == 5))
}
wait_until 30 "five workers to show state, view, rank and step" all_say_their_step || fail "$("$muster" ps scale)"

step "two"
run 30 "$docker_program" service scale --detach scale_worker=2
expect_status 0
await_view scale 2 90

step "it finishes, with the undisturbed run's result"
survive_finish scale 900
output=$complaints
expect_line '^view [0-9]+, 5 workers, .*joined; training again after '
expect_line '^view [0-9]+, 2 workers, .*left; training again after '
expect_no_line ' lost: '
expect_equal "$(run_value 'sorted(w["state"] for w in run["workers"])')" "['done', 'done', 'left', 'left', 'left']" "states of workers"
