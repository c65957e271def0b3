#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A muster that is killed at any point of a deployment or a removal: the same command converges.
set -euo pipefail
# shellcheck source=tests/lab/deploy.sh
source "$(dirname "$0")/deploy.sh"

deploy_test killed
kills=3
[[ -z ${MUSTER_TEST_LONG:-} ]] || kills=60
deploy_stack >stack.yml

step "killed at any point of a deployment, the same command converges ($kills times)"
for ((i = 1; i <= kills; i++)); do
    # The first writes come after some 10 ms, the last of all waits after about 3 s.
    printf '%s\n' "$i" >key
    printf '%s\n' "$i" >model
    begin killed "${deploy[@]}" -c stack.yml killed
    pause=$(awk -v i="$i" -v n="$kills" 'BEGIN { printf "%.3f", 0.004 * exp(i / n * 5.5) }')
    read -rt "$pause" <> <(:) || true # how long it is let live: the point of the kill
    kill -KILL -- "-${pids[killed]}" 2>/dev/null || true # it may have ended by then
    finish killed 10
    run 90 "${deploy[@]}" -c stack.yml killed
    expect_status 0
    run 20 "$muster" plan --resolve-image never -c stack.yml killed
    expect_status 0
    if ((i % 3 == 0)); then # from nothing as well
        run 60 "$muster" rm killed
        expect_status 0
    fi
done

step "rm, killed in the middle, and again"
run 90 "${deploy[@]}" -c stack.yml killed
expect_status 0
begin killed "$muster" rm killed
await_output killed 20 'removed service'
kill -KILL -- "-${pids[killed]}"
finish killed 10
run 60 "$muster" rm killed
expect_status 0
expect_stack_gone killed
