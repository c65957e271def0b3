# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# What a test of trainings that lose workers needs beside stack.sh. A test sources this file instead, and then says
#
#     survive_test NAME...            # stack_test, stack_use, and $reference: the digest of an undisturbed run
#     survive_begin NAME [ARGS...]    # `muster run` in the background, until all three are in a view
#     rank_of 0 NAME                  # sets $slot (w2.1), $node, $container and $pid of the worker of that rank
#     in_view NAME 2                  # as many are in the newest view, and train
#     steps_done NAME                 # of the training, so far
#     survive_finish NAME SECONDS [SLOT...]  # it ends with 0 and the reference's digest; each SLOT was lost and came back
#
# shellcheck source=tests/lab/stack.sh
source "$(dirname "${BASH_SOURCE[0]}")/stack.sh"

# Long enough for some five losses and returns, and not more.
: "${epochs:=40}" "${steps:=20}"
: "${survive_file:=$stacks/workload1.yml}"
survive_options=()
reference='' slot=''

survive_test() {
    stack_test
    stack_use "$@" reference
    survive_options+=(-e "MUSTER_EPOCHS=$epochs" -e "MUSTER_STEPS=$steps" -e MUSTER_BATCH=8 -e MUSTER_EXCHANGE=direct
        -e MUSTER_CHECKPOINT_STEPS=25 -e MUSTER_INTERVAL=500ms)
    survive_reference
}

# Kept with the lab: the other tests on it need not train it again.
survive_reference() {
    local kept
    kept=$MUSTER_LAB_DIR/reference-$(sha256sum <<<"$MUSTER_IMAGE $survive_file ${survive_options[*]}" | cut -c1-16)
    if [[ ! -s $kept ]]; then
        step "an undisturbed run, for its result"
        begin reference "$muster" run -c "$survive_file" "${survive_options[@]}" -e MUSTER_SUBNET=10.60.9.0/24 reference
        finish reference 900
        expect_status 0
        run_value 'run["workers"][0]["digest"]' >"$kept.new"
        mv "$kept.new" "$kept"
    fi
    reference=$(<"$kept")
    [[ $reference =~ ^[0-9a-f]{64}$ ]] || fail "reference digest '$reference'"
}

# run_value EXPRESSION: of run.json of the run that just finished.
run_value() { python3 -c 'import json, sys; run = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$(run_folder)/run.json" "$1"; }

survive_begin() {
    local name=$1
    shift
    begin "$name" "$muster" run -c "$survive_file" "${survive_options[@]}" "$@" "$name"
    await_output "$name" 90 'workers have found each other'
}

# "SLOT TASK STATE WORKER VIEW RANK STEP" of each task that runs, "-" for what is not known.
workers_of() {
    timeout 30 "$muster" ps --format json "$1" >"$test_folder/ps.json" 2>"$test_folder/ps.err" || return 0
    python3 -c '
import json, sys
for task in json.load(sys.stdin):
    if task["desired"] == "running":
        values = [task[key] for key in ("id", "state", "worker", "view", "rank", "step")]
        print(task["name"].removeprefix(sys.argv[1] + "_"), *("-" if value is None else value for value in values))' "$1" \
        <"$test_folder/ps.json"
}

# How many steps the training has done; "3/7" is the 7th step of epoch 3.
steps_done() {
    workers_of "$1" | awk -v steps="$steps" '
        $4 == "training" { split($7, at, "/"); done = (at[1] - 1) * steps + at[2]; if (done > most) most = done }
        END { print most + 0 }'
}

# Training, in the view that the most advanced of them names.
in_view() {
    (($(workers_of "$1" | awk '$4 == "training" { if ($5 > view) { view = $5; n = 0 }; n += $5 == view } END { print n + 0 }') == $2))
}

# The container of a task: its name begins with the slot's.
container_of_slot() {
    local each found
    node='' container='' pid=''
    for each in $MUSTER_LAB_NODES; do
        found=$(docker_at "$each" ps -q --no-trunc --filter "name=^$1_$2\\.") || found=''
        [[ -n $found ]] || continue
        node=$each container=${found%%$'\n'*}
        pid=$(docker_at "$node" inspect --format '{{.State.Pid}}' "$container" 2>/dev/null) || pid=''
    done
    [[ -n $pid && $pid != 0 ]]
}

has_rank() {
    slot=$(workers_of "$2" | awk -v rank="$1" '$4 == "training" && $6 == rank { print $1; exit }')
    [[ -n $slot ]] && container_of_slot "$2" "$slot"
}

rank_of() {
    wait_until 30 "stack '$2' to have rank $1" has_rank "$@" ||
        fail "no worker of rank $1: $(workers_of "$2")$(<"$test_folder/ps.err")"
}

await_view() {
    wait_until "${3:-60}" "$2 workers to train in stack '$1'" in_view "$1" "$2" || { output_of "$1" && fail "$(workers_of "$1")"; }
    ! ended "$1" || { output_of "$1" && fail "'$1' ended"; }
}

survive_finish() {
    local name=$1 seconds=$2
    shift 2
    finish "$name" "$seconds"
    expect_status 0
    run 30 python3 "$source_root/tests/lab/check_survival.py" "$(run_folder)" "$reference" "$((epochs * steps))" "$@"
    expect_status 0
    say "$output"
    expect_stack_gone "$name"
}
