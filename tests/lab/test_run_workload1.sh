#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# One command, the published workload on three nodes: the summary, every file of the run folder, and nothing left.
set -euo pipefail
# shellcheck source=tests/lab/stack.sh
source "$(dirname "$0")/stack.sh"

stack_test
stack_use one

step "three workers train, and the summary says so"
start=$(now_ms)
begin one "$muster" run -c "$stacks/workload1.yml" "${short[@]}" -e MUSTER_EPOCHS=3 -e MUSTER_STEPS=8 one
finish one 90
expect_status 0
say "$(($(now_ms) - start)) ms"
for line in '^WORKER +NODE +RANK' '^one_w1\.1 +node1 ' '^one_w2\.1 +node2 ' '^one_w3\.1 +node3 ' \
    '^sweep of the subnet: +[0-9]+ ms$' '^last start to first training step: +[0-9]+ ms$' \
    '^test accuracy: +0\.[0-9]{4}$' '^models: +identical on all workers$'; do
    grep -qE "$line" <<<"$result" || fail "no line like '$line' in the summary"
done
for line in '^3 workers have found each other' '^epoch 3/3: 3 workers, 8 steps' '^collected 7 files'; do
    grep -qE "$line" <<<"$complaints" || fail "no line like '$line' on the way"
done

step "nothing is left of the stack"
expect_stack_gone one

step "the run folder holds what it should"
folder=$(run_folder)
expect_equal "${folder%/*}" "$MUSTER_RUNS" "the run folder's place"
run 30 "$(numpy_python)" "$source_root/tests/lab/check_run_folder.py" "$folder" one 3 3 8
expect_status 0
for pair in 'sweep of the subnet:sweep_ms' 'last start to first training step:first_step_ms'; do
    expect_equal "$(sed -n "s/^${pair%:*}: *\([0-9]*\) ms\$/\1/p" <<<"$result")" \
        "$(printf '%.0f' "$(sed -n "s/.*\"${pair#*:}\":\s*\([0-9.]*\).*/\1/p" "$folder/run.json" | head -n 1)")" \
        "'${pair%:*}' of summary and run.json"
done
