#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Stacks that docker and muster hand to each other: either sees, leaves alone and removes what the other deployed, and
# a stack that was removed a moment ago, by either, can be deployed at once.
set -euo pipefail
# shellcheck source=tests/lab/stack.sh
source "$(dirname "$0")/stack.sh"

stack_test
stack_use again twice
file=$(quick_workload)
# docker reads variables from the environment only, so here muster does too.
export MUSTER_WORKERS=4 MUSTER_REPLICAS1=1 MUSTER_REPLICAS2=1 MUSTER_REPLICAS3=1 MUSTER_STACK=again
docker_deploy() {
    local options=(--prune -c "$file")
    if docker stack deploy --help | grep -q -- --detach; then options+=(--detach=true); fi
    run 60 "$docker_program" stack deploy "${options[@]}" again
    expect_status 0
}
muster_deploy() {
    run 60 "$muster" deploy -c "$file" again
    expect_status 0
    expect_line "^stack 'again': 5 services up in "
}

# Swarm takes seconds to remove a stack, so the other way of removing goes on meanwhile, on a subnet of its own.
step "muster rm, then muster deploy at once, three times (beside what follows)"
begin twice env MUSTER_STACK=twice MUSTER_SUBNET=10.70.0.0/24 bash -ec '
    "$1" deploy -c "$2" twice
    for try in 1 2 3; do
        "$1" rm twice
        for kind in service network secret config; do
            left=$("$3" $kind ls -q --filter label=com.docker.stack.namespace=twice)
            [[ -z $left ]] || { echo "left after rm: $kind $left"; exit 1; }
        done
        "$1" deploy -c "$2" twice
    done' - "$muster" "$file" "$docker_program"

step "muster sees a stack that docker deployed"
head -c 32 /dev/urandom | docker secret create --label com.docker.stack.namespace=again again_muster_key - >/dev/null
docker_deploy
wait_until 60 "seven tasks to run" tasks_running again 7 || fail "$(docker stack ps again)"
tasks=$(tasks_of again)
run 10 "$muster" ls
expect_line '^again +5 +7 +7$'
run 10 "$muster" services again
expect_line ' again_monitor +global +3 +3 '
expect_line ' again_w1 +replicated +1 +1 '
run 10 "$muster" ps again
expect_line ' again_w2\.1 .* node2 +running +running '
run 10 "$muster" ps --format json again
expect_equal "$(grep -cE '"name":\s*"again_' <<<"$output")" 7 "tasks of ps --format json"
run 10 "$muster" logs --samples again
expect_line '^again_w3.*"event":"start"'
expect_line '^again_monitor.*"event":"sample"'

step "and changes nothing when it deploys the same file over it"
run 30 "$muster" plan -c "$file" again
expect_status 0
muster_deploy
expect_equal "$(tasks_of again)" "$tasks" "tasks after muster deploy over docker's"

for try in 1 2 3; do
    step "docker stack rm, then muster deploy at once ($try)"
    run 30 "$docker_program" stack rm again
    expect_status 0
    muster_deploy
    expect_equal "$(comm -12 <(tasks_of again) - <<<"$tasks")" "" "tasks of the removed stack"
    tasks=$(tasks_of again)
done

step "docker sees a stack that muster deployed"
run 10 "$docker_program" stack ls --format '{{.Name}} {{.Services}}'
expect_line '^again 5$'
run 10 "$docker_program" stack services --format '{{.Name}} {{.Mode}} {{.Replicas}}' again
expect_line '^again_w1 replicated 1/1$'
expect_line '^again_monitor global 3/3$'
run 10 "$docker_program" stack ps --format '{{.Name}} {{.Node}} {{.CurrentState}}' again
expect_line '^again_w3\.1 node3 Running'

step "the same file again restarts nothing, deployed by muster or by docker"
muster_deploy
expect_equal "$(tasks_of again)" "$tasks" "tasks after a second muster deploy"
docker_deploy
expect_equal "$(tasks_of again)" "$tasks" "tasks after docker stack deploy over muster's"
run 30 "$muster" plan -c "$file" again
expect_status 0

step "muster rm, then muster deploy at once: all three came up"
finish twice 60
expect_status 0
expect_equal "$(grep -c "^stack 'twice': 5 services up in " <<<"$complaints")" 4 "deployments"
tasks_running twice 7 || fail "$(docker stack ps twice)"
begin twice "$muster" rm twice

step "docker stack rm takes all of it away, the generated key too"
run 30 "$docker_program" stack rm again
wait_until 30 "the stack to go" stack_is_gone again || fail "$(stack_objects again)"
expect_stack_gone again
finish twice 60
expect_status 0
expect_stack_gone twice
