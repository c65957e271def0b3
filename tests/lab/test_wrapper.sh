#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# scripts/run_workload.sh, for people who live in docker's own tools: it deploys, records and collects; Ctrl-C leaves the
# stack; a changed stack is trained anew; docker takes everything away.
set -euo pipefail
# shellcheck source=tests/lab/stack.sh
source "$(dirname "$0")/stack.sh"

stack_test
stack_use wrapped
wrapper=$source_root/scripts/run_workload.sh
export MUSTER_BUILD=${MUSTER_BUILD:-$source_root/build/release}
export MUSTER_STEPS=10 MUSTER_BATCH=16 MUSTER_INTERVAL=200ms
out=$test_folder/wrapped
results() { sed -n 's/^run_workload: results: \([^;]*\).*/\1/p' <<<"$complaints"; }
file=$stacks/workload1.yml
begin_wrapper() { begin wrapper "$wrapper" -c "$file" --out "$out" "$@" wrapped; }

step "--follow ends with every worker's files and this engine's statistics"
MUSTER_EPOCHS=2 begin_wrapper --follow
finish wrapper 90
expect_status 0
folder=$(results)
expect_equal "$(cd "$folder" && echo *)" "$(xargs <<<"history-wrapped_w1.1.csv history-wrapped_w2.1.csv
    history-wrapped_w3.1.csv ips-wrapped_w1.1.xml ips-wrapped_w2.1.xml ips-wrapped_w3.1.xml model.safetensors stats.csv")" files
expect_equal "$(wc -l <"$folder/history-wrapped_w2.1.csv")" 3 "lines of a history of two epochs"
expect_equal "$(head -n 1 "$folder/stats.csv")" "time,node,stack,service,slot,container,name,cpu_percent,cpu_seconds_total,\
memory_bytes,memory_limit_bytes,rx_bytes,tx_bytes,rx_packets,tx_packets" "header of stats.csv"
output=$(<"$folder/stats.csv")
expect_line ',node1,wrapped,wrapped_w1,wrapped_w1\.1,[0-9a-f]{64},wrapped_w1\.1\.[a-z0-9]+,[0-9.]*,[0-9.]+,[0-9]+,1073741824,'
expect_no_line ',node[23],'
wait_until 20 "the workers to end and the rest to stay" tasks_running wrapped 4 || fail "the stack was to stay: $(docker stack ps wrapped)"

step "the same again restarts nothing and gives the same results"
tasks=$(tasks_of wrapped)
MUSTER_EPOCHS=2 begin_wrapper --follow
finish wrapper 30
expect_status 0
expect_equal "$(tasks_of wrapped)" "$tasks" tasks

step "a change is trained, and its own results are waited for"
file=$(quick_workload)
MUSTER_EPOCHS=3 begin_wrapper --follow
finish wrapper 90
expect_status 0
expect_equal "$(wc -l <"$(results)/history-wrapped_w2.1.csv")" 4 \
    "lines of a history of three epochs"

step "Ctrl-C ends the record and leaves the stack"
MUSTER_EPOCHS=100000 begin_wrapper
await_output wrapper 30 'recording to .*/stats\.csv until Ctrl-C'
stats=$(sed -n 's/^run_workload: recording to \(.*\) until Ctrl-C$/\1/p' "$test_folder/wrapper.err")
wait_until 30 "seven tasks to run" tasks_running wrapped 7 || fail "$(docker stack ps wrapped)"
wait_until 10 "rows of the worker" grep -q ',wrapped_w1,' "$stats" || fail "no rows in $stats"
kill -INT -- "-${pids[wrapper]}"
finish wrapper 15
expect_status 130
expect_line '^run_workload: stopped watching; the stack stays: docker stack rm wrapped$'
tasks_running wrapped 7 || fail "the stack was to stay: $(docker stack ps wrapped)"

step "a worker that is killed comes back; when none is left, --follow ends with 7 and the last lines"
sed 's/max_attempts: 10/max_attempts: 1/' "$file" >"$test_folder/once.yml"
run 30 "$docker_program" stack rm wrapped # so that no task of before is taken for one of these
wait_until 30 "the stack to go" stack_is_gone wrapped || fail "$(stack_objects wrapped)"
expect_stack_gone wrapped
begin wrapper env MUSTER_EPOCHS=100000 "$wrapper" -c "$test_folder/once.yml" --out "$out" --follow wrapped
await_output wrapper 60 '^epoch [0-9]+ of 100000'
for round in 1 2; do
    for service in w1 w2 w3; do
        wait_until 30 "wrapped_$service to run" container_of wrapped "$service" || fail "no container of wrapped_$service"
        ! ended wrapper || { output_of wrapper && fail "the wrapper ended in round $round"; }
        kill -KILL "$pid"
        wait_until 10 "wrapped_$service to end" bash -c '! kill -0 "$0" 2>/dev/null' "$pid"
    done
done
finish wrapper 60
expect_status 7
expect_line '^run_workload: no worker is left; wrapped_w[123]\.1: Failed'

step "docker stack rm takes all of it away, the key too"
run 30 "$docker_program" stack rm wrapped
wait_until 30 "the stack to go" stack_is_gone wrapped || fail "$(stack_objects wrapped)"
expect_stack_gone wrapped
