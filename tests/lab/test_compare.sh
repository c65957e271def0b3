#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Containers against processes on the lab's nodes, each once, with the report. With MUSTER_TEST_LONG experiments like
# those of docs/compare.md: five repeats, one workload and two, the overlay and the hosts' network, bare against bare.
set -euo pipefail
# shellcheck source=tests/lab/stack.sh
source "$(dirname "$0")/stack.sh"

stack_test
stack_use workload1 workload2
agent=${MUSTER_BUILD:-$source_root/build/release}/node-agent/muster-agent
launch=(--launcher "$lab exec {host} {cmd}" --host-muster "$muster" --host-agent "$agent" --subnet 10.77.0.0/24
    --data "$source_root/data/mnist" --host-folder "$test_folder/hosts")
mkdir -p "$test_folder/hosts"
chmod a+x "$test_folder" # for the uid that agents become

# asked FOLDER EXPRESSION: of its experiment.json, e
asked() {
    python3 -c 'import json, sys; e = json.load(open(sys.argv[1])); print(eval(sys.argv[2], {"e": e}))' \
        "$1/experiment.json" "$2"
}

# compare FOLDER SECONDS OPTIONS...
compare() {
    local folder=$1 seconds=$2
    shift 2
    begin compare "$muster" compare "${launch[@]}" --out "$folder" "$@"
    finish compare "$seconds"
    expect_status 0
    expect_equal "$(asked "$folder" 'e["state"], {r["state"] for r in e["runs"]}')" "('complete', {'complete'})" "state"
    for stack in workload1 workload2; do expect_stack_gone "$stack"; done
    expect_equal "$(ls "$test_folder/hosts")" "" "left on the hosts"
    [[ -s $folder/report.html ]] || fail "no report"
}

step "in containers, in containers on the hosts' network, and without"
one=$test_folder/one
compare "$one" 110 "${short[@]}" -c "$stacks/workload1.yml" --host-network --exchange ring --repeats 1 --warmups 0
expect_equal "$(asked "$one" '[(r["mode"], r["launch_seconds"] > 0, len(r["noise"])) for r in e["runs"]]')" \
    "[('container', True, 3), ('bare', True, 3), ('container-host', True, 3)]" "runs"

step "the same training, to the bit, and the same files"
expect_equal "$(asked "$one" 'len({r["digest"] for r in e["runs"]})')" 1 "models"
for mode in 001-container 002-bare 003-container-host; do
    folder=$(echo "$one/runs/$mode"/*-workload1)
    expect_equal "$(cat "$folder"/steps-*.csv | grep -cv '^slot')" 15 "rows of steps of $mode"
    expect_equal "$(find "$folder" -name 'history-*.csv' | wc -l)" 3 "histories of $mode"
    for event in start first_step epoch 'done'; do
        expect_equal "$(grep -c "\"event\":\"$event\"" "$folder/events.jsonl")" 3 "events '$event' of $mode"
    done
    [[ -s $folder/nodes.csv && -s $folder/run.json ]] || fail "$mode: no nodes.csv or run.json"
done

[[ -n ${MUSTER_TEST_LONG:-} ]] || exit 0

step "killed in the middle of a run in containers: nothing stays, and it goes on"
begin compare "$muster" compare "${launch[@]}" --out "$test_folder/killed" -e MUSTER_EPOCHS=100000 -e MUSTER_STEPS=5 \
    -c "$stacks/workload1.yml" --repeats 1 --warmups 0
await_output compare 30 '^run 1 of 2'
stack_trains() { docker service logs workload1_w1 2>/dev/null | grep -q first_step; }
wait_until 60 "the workers to train" stack_trains || fail "no training began"
kill -KILL "${pids[compare]}"
finish compare 10
wait_until 60 "the stack to go" stack_is_gone workload1 || fail "the stack outlives the program that ran it"
expect_stack_gone workload1
rm -r "$test_folder/killed" "${test_folder:?}/hosts"/*

some=(-e MUSTER_EPOCHS=2 -e MUSTER_STEPS=30 -e MUSTER_CONGESTION=cubic)

step "one workload and two, five repeats"
compare "$test_folder/long" 3000 "${some[@]}" -c "$stacks/workload1.yml" -c "$stacks/workload2.yml" --workloads 1,2 \
    --host-network --exchange ring

step "bare against bare"
compare "$test_folder/aa" 600 "${some[@]}" -c "$stacks/workload1.yml" --modes bare,bare --exchange ring
