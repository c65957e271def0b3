#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The first command of a newcomer, in a fresh copy of the sources: it builds, brings up a lab, trains, and takes the lab
# down again. The second time it builds nothing.
set -euo pipefail
# shellcheck source=tests/lab/stack.sh
source "$(dirname "$0")/stack.sh"

lab_test
at_end end_processes
lab_own_folder
unset MUSTER_BUILD MUSTER_RUNS "${!MUSTER_NODE@}"

# What git has, as it lies here; a folder without git is taken whole.
copy=$test_folder/muster
export CCACHE_BASEDIR=$copy # scripts/test.sh may have chosen a compiler that remembers
mkdir "$copy"
if ! git -C "$source_root" ls-files -z >"$test_folder/files" 2>/dev/null; then
    (cd "$source_root" && find . -path ./build -prune -o -path ./runs -prune -o -type f -print0) >"$test_folder/files"
fi
tar -C "$source_root" --null --files-from="$test_folder/files" --ignore-failed-read -cf - 2>/dev/null | tar -C "$copy" -xf -
quickstart() { begin quickstart "$copy/scripts/quickstart.sh" -- "${short[@]}" "$@"; }

# What a lab of this folder would leave.
expect_no_lab() {
    run 20 "$lab" status
    expect_status 1
    expect_line 'no lab in '
    expect_equal "$(grep -c " $MUSTER_LAB_DIR" /proc/self/mounts || true)" 0 "mounts of the lab"
}

step "the first time it builds, trains and tidies up"
start=$(now_ms)
quickstart
finish quickstart 250
expect_status 0
grep -q '^models: *identical on all workers$' <<<"$result" || fail "no summary"
# quickstart works in the copy's folder.
run 30 "$(numpy_python)" "$source_root/tests/lab/check_run_folder.py" "$copy/$(run_folder)" workload1 3 1 5
expect_status 0
expect_no_lab
say "$(($(now_ms) - start)) ms"
times() { stat -c '%n %Y' "$copy"/build/release/{swarm/muster,node-agent/muster-agent,monitoring/muster-monitor,muster-image.tar}; }
built=$(times)

step "the second time it builds nothing; and at Ctrl-C while it trains the lab goes, too"
quickstart -e MUSTER_EPOCHS=100000
await_output quickstart 120 '^epoch 2/'
expect_equal "$(times)" "$built" "build times"
kill -INT -- "-${pids[quickstart]}"
finish quickstart 60
expect_status 130
expect_no_lab
