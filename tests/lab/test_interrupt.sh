#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Ctrl-C at every station of `muster run` and `muster deploy`: the exit code says interrupted, run leaves nothing
# (unless told to), deploy says what stands, and the next deploy takes over from there.
set -euo pipefail
# shellcheck source=tests/lab/stack.sh
source "$(dirname "$0")/stack.sh"

stack_test

# Each on a subnet of its own: a removal takes Swarm seconds, in which the next one can go on.
stations=0
begin_run() {
    local stack=$1
    shift
    stack_use "$stack"
    begin "$stack" "$muster" run -c "$stacks/workload1.yml" -e "MUSTER_SUBNET=10.40.$((++stations)).0/24" \
        -e MUSTER_STEPS=5 -e MUSTER_BATCH=16 "$@" "$stack"
}

readonly endless=(-e MUSTER_EPOCHS=100000)
step "muster run is interrupted: while it creates, converges, trains, collects, and removes"
begin_run creating "${endless[@]}"
interrupt creating 30 'created secret'
begin_run services "${endless[@]}"
interrupt services 30 'created service services_w2' TERM
begin_run starting "${endless[@]}"
interrupt starting 60 'of 3 workers have started'
begin_run training "${endless[@]}"
interrupt training 60 'epoch 2/'
begin_run collecting -e MUSTER_EPOCHS=1
interrupt collecting 60 'epoch 1/1'
begin_run removing -e MUSTER_EPOCHS=1
interrupt removing 60 'removed service'

for stack in creating services starting training collecting removing; do
    step "... $stack: the exit code is right and nothing is left"
    finish "$stack" 90
    expect_status "$(if [[ $stack == services ]]; then echo 143; else echo 130; fi)"
    expect_equal "$(tail -n 1 <<<"$complaints")" "muster: interrupted" "last line"
    expect_stack_gone "$stack"
    run_json=$(echo "$MUSTER_RUNS"/*-"$stack"/run.json)
    grep -qE "\"result\":\s*\"$(if [[ $stack == removing ]]; then echo "done"; else echo interrupted; fi)\"" "$run_json" ||
        fail "run.json of an interrupted run: $(grep '"result"' "$run_json")"
done

step "muster run --leave leaves the stack"
begin_run left --leave "${endless[@]}"
interrupt left 60 'epoch 1/'
finish left 30
expect_status 130
expect_line "^stack 'left' is left standing; 'muster rm left' removes it$"
expect_equal "$(stack_objects left | grep -c '^service ')" 5 "services left"
begin removal "$muster" rm left

step "muster deploy is interrupted: it says what stands, and the next deploy converges"
stack_use half
file=$(quick_workload)
deploy=("$muster" deploy -c "$file" "${idle[@]}" -e MUSTER_SUBNET=10.40.100.0/24 half)
begin half "${deploy[@]}"
interrupt half 30 'created service half_w1'
finish half 30
expect_status 130
expect_line "^stack 'half' stands with [1-5] services; 'muster rm half' removes it$"
begin half "${deploy[@]}"
interrupt half 60 '/1 running'
finish half 30
expect_status 130
expect_line "^stack 'half' stands with 5 services; 'muster rm half' removes it$"
run 60 "${deploy[@]}"
expect_status 0
tasks_running half 7 || fail "$(docker stack ps half)"
run 60 "$muster" rm half
expect_status 0
expect_stack_gone half
finish removal 60
expect_status 0
