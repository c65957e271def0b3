#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Removals and deployments back to back: whatever the removal left, the next deployment comes up.
set -euo pipefail
if [[ -z ${MUSTER_TEST_LONG:-} ]]; then echo "skipped: scripts/test.sh --long runs it" && exit 77; fi
# shellcheck source=tests/lab/deploy.sh
source "$(dirname "$0")/deploy.sh"

deploy_test again
rounds=20
deploy_stack >stack.yml

step "rm and deploy back to back, $rounds times"
begun=$(now_ms)
for ((i = 1; i <= rounds; i++)); do
    run 60 "${deploy[@]}" -c stack.yml again
    expect_status 0
    run 60 "$muster" rm again
    expect_status 0
    expect_equal "$(stack_objects again)" "" "left of the stack in round $i"
    say "round $i after $((($(now_ms) - begun) / 1000)) s"
done
say "$rounds rounds in $((($(now_ms) - begun) / 1000)) s"
