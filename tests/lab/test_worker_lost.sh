#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A worker is lost while it trains, killed or frozen: the others end within seconds and say whom they miss, `muster run`
# ends with 7 and names the one that was lost, and the stack goes.
set -euo pipefail
# shellcheck source=tests/lab/stack.sh
source "$(dirname "$0")/stack.sh"

stack_test
stack_use killed frozen
readonly training=(-e MUSTER_EPOCHS=100000 -e MUSTER_STEPS=5 -e MUSTER_BATCH=16)

step "two trainings"
begin killed "$muster" run --leave -c "$stacks/workload1.yml" "${training[@]}" -e MUSTER_SUBNET=10.50.1.0/24 killed
begin frozen "$muster" run -c "$stacks/workload1.yml" "${training[@]}" -e MUSTER_SUBNET=10.50.2.0/24 frozen
await_output killed 60 '^epoch 2/'
await_output frozen 60 '^epoch 2/'

step "one worker is killed: muster run ends with 7 and names it"
container_of killed w2 || fail "no container of killed_w2"
expect_equal "$node" node2 "node of killed_w2"
start=$(now_ms) start_s=$EPOCHREALTIME
kill -KILL "$pid"
finish killed 20
say "$(($(now_ms) - start)) ms"
expect_status 7
expect_equal "$(tail -n 1 <<<"$complaints" | grep -c "^muster: worker 'killed_w2\.1' failed: ")" 1 "lines that name the lost worker"
grep -qE '"result":\s*"failed"' "$(run_folder)/run.json" || fail "run.json of a failed run"

step "the others ended by themselves within 5 s, and their logs say why"
for service in w1 w3; do
    # `muster run` may have ended on the news of the kill alone.
    # shellcheck disable=SC2016
    wait_until 10 "task killed_$service to fail" \
        bash -c '[[ $("$1" service ps --format "{{.CurrentState}}" "$2") == Failed* ]]' - "$docker_program" "killed_$service" ||
        fail "$(docker service ps --no-trunc "killed_$service")"
    run 10 "$docker_program" service ps --no-trunc --format '{{.Error}}' "killed_$service"
    expect_line 'non-zero exit \(1\)'
    run 10 "$docker_program" service logs --raw "killed_$service"
    expect_line '"event":"failed".*"reason":"[^"]*killed_w2\.1'
    expect_line '^muster-agent: .*killed_w2\.1'
    awk -v t="$(grep '"event":"failed"' <<<"$output" | grep -o '"t":[0-9.]*' | cut -d: -f2)" -v start="$start_s" \
        'BEGIN { exit !(t - start < 5) }' || fail "killed_$service took more than 5 s to notice"
done

step "another is frozen: the rest give it up, and the stack goes with all of them"
container_of frozen w1 || fail "no container of frozen_w1"
at_end "kill -CONT $pid 2>/dev/null"
start=$(now_ms)
kill -STOP "$pid"
finish frozen 90
say "$(($(now_ms) - start)) ms with the removal"
expect_status 7
expect_equal "$(tail -n 1 <<<"$complaints" | grep -cE "^muster: worker 'frozen_w[123]\.1' failed: .*frozen_w1\.1")" 1 \
    "lines that name the frozen worker"
expect_stack_gone frozen

step "muster rm takes away what was left"
run 60 "$muster" rm killed
expect_status 0
expect_stack_gone killed
