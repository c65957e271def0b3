#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Both published workloads side by side, each on its own subnet, and at the same time other shapes of the first one:
# all workers on one node, fewer and more than nodes, given by option or by environment.
set -euo pipefail
# shellcheck source=tests/lab/stack.sh
source "$(dirname "$0")/stack.sh"

stack_test
stack_use workload1 workload2 single pair five

step "five trainings at once"
run_on() { # STACK FILE WORKERS SUBNET [OPTIONS]
    local stack=$1 file=$2 subnet=$4
    shift 4
    begin "$stack" "$muster" run -c "$stacks/$file.yml" "${short[@]}" ${subnet:+-e "MUSTER_SUBNET=$subnet"} "$@" "$stack"
}
run_on workload1 workload1 3 ''
run_on workload2 workload2 3 ''
MUSTER_NODE1=node1 MUSTER_NODE2=node1 MUSTER_NODE3=node1 run_on single workload1 3 10.60.1.0/24
run_on pair workload2 2 10.60.2.0/24 -e MUSTER_WORKERS=2
MUSTER_WORKERS=5 run_on five workload1 5 10.60.3.0/24

python=$(numpy_python)
# check STACK WORKERS 'NODES OF THE WORKERS IN ORDER OF SLOTS'
check() {
    step "... $1: $2 workers"
    finish "$1" 150
    expect_status 0
    expect_equal "$(awk '/^'"$1"'_w/ { print $2 }' <<<"$result" | xargs)" "$3" "nodes of the workers"
    run 30 "$python" "$source_root/tests/lab/check_run_folder.py" "$(run_folder)" "$1" "$2" 1 5
    expect_status 0
    expect_stack_gone "$1"
}
check workload1 3 "node1 node2 node3"
check workload2 3 "node1 node2 node3"
check single 3 "node1 node1 node1"
check pair 2 "node1 node2"
check five 5 "node1 node1 node2 node2 node3"
expect_equal "$(grep -hc 192.168.0 "$MUSTER_RUNS"/*-workload1/run.json)" 6 "addresses of workload 1's subnet"
expect_equal "$(grep -hc 10.10.0 "$MUSTER_RUNS"/*-workload2/run.json)" 6 "addresses of workload 2's subnet"
