# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# What a test of stacks needs beside lib.sh. A test sources this file instead, and then says
#
#     stack_test                               # lab_test, the lab with muster's image in it, $muster
#     stack_use NAME...                        # these stacks are the test's: removed when it ends, whatever happened
#     begin train "$muster" run ...            # in the background, as a terminal would start it
#     await_output train 20 'found each other' # at most 20 s for a line; fails if the command ends without one
#     kill -INT "${pids[train]}"
#     finish train 30                          # at most 30 s for its end; fills $output, $status, $result, $complaints
#     expect_stack_gone NAME                   # nothing of it is left in the Swarm or on any node
#
# shellcheck source=tests/lab/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# shellcheck disable=SC2034 # for the tests
{
    muster=${MUSTER_BUILD:-$source_root/build/release}/swarm/muster
    stacks=$source_root/compose/stacks
    # Enough of a training to go through every station, and not more; samples so often that none is missed.
    short=(-e MUSTER_EPOCHS=1 -e MUSTER_STEPS=5 -e MUSTER_BATCH=16 -e MUSTER_INTERVAL=200ms)
    # One that lasts until it is ended, without burning the cores: three workers wait for a fourth.
    idle=(-e MUSTER_WORKERS=4 -e MUSTER_REPLICAS1=1 -e MUSTER_REPLICAS2=1 -e MUSTER_REPLICAS3=1)
}
declare -A pids=()
# shellcheck disable=SC2034 # for the tests
result='' complaints=''

stack_test() {
    lab_test
    lab_use
    lab_use_image
    docker_program=$MUSTER_DOCKER
    # Variables of the caller's own must not reach the stack files, nor a docker configuration the client.
    unset MUSTER_STACK MUSTER_NODE{1..3} MUSTER_MANAGER MUSTER_WORKERS MUSTER_REPLICAS{1..3} MUSTER_SUBNET
    export DOCKER_CONFIG=$test_folder/docker-config
    mkdir -p "$test_folder/runs" "$DOCKER_CONFIG"
    export MUSTER_RUNS=$test_folder/runs
    at_end end_processes
}

docker() { "$docker_program" "$@"; }
docker_at() { "$docker_program" -H "unix://$(node_socket "$1")" "${@:2}"; }

# --- commands in the background ---------------------------------------------------------------------------

# A shell's background job ignores SIGINT, which a bash script could not undo; and Ctrl-C reaches a whole group.
begin() {
    local name=$1
    shift
    touch "$test_folder/$name.out" "$test_folder/$name.err" # there is something to read at once
    setsid env --default-signal=INT,QUIT "$@" >"$test_folder/$name.out" 2>"$test_folder/$name.err" </dev/null &
    pids[$name]=$!
}

ended() { ! kill -0 "${pids[$1]}" 2>/dev/null; }

output_of() {
    output=$(cat "$test_folder/$1.out" "$test_folder/$1.err")
}

output_has() { grep -qE -- "$2" "$test_folder/$1.out" "$test_folder/$1.err"; }
output_has_or_ended() { output_has "$@" || ended "$1"; }

# await_output NAME SECONDS PATTERN
await_output() {
    wait_until "$2" "'$1' to say '$3'" output_has_or_ended "$1" "$3" || { output_of "$1" && fail "$1: nothing like '$3'"; }
    output_has "$1" "$3" || { output_of "$1" && fail "$1: ended without a line like '$3'"; }
}

# interrupt NAME SECONDS TEXT [SIGNAL]: the moment that it says TEXT, Ctrl-C. No pauses here: what comes next in the
# command takes a millisecond or two.
interrupt() {
    local deadline said='' has_ended=''
    deadline=$(($(now_ms) + $2 * 1000))
    until [[ $said == *"$3"* ]]; do
        if [[ -n $has_ended ]] || (($(now_ms) >= deadline)); then output_of "$1" && fail "$1: never said '$3'"; fi
        ! ended "$1" || has_ended=1 # its last words are read once more
        said=$(<"$test_folder/$1.err")
    done
    kill "-${4:-INT}" -- "-${pids[$1]}"
}

# finish NAME SECONDS: $result is its stdout, $complaints its stderr, $output both.
finish() {
    wait_until "$2" "'$1' to end" ended "$1" || { output_of "$1" && fail "$1: still runs after $2 s"; }
    status=0
    wait "${pids[$1]}" || status=$?
    unset "pids[$1]"
    result=$(<"$test_folder/$1.out")
    # shellcheck disable=SC2034
    complaints=$(<"$test_folder/$1.err")
    output_of "$1"
}

end_processes() { end_processes_of "${!pids[@]}"; }

end_processes_of() {
    local name
    for name in "$@"; do
        kill -TERM -- "-${pids[$name]}" 2>/dev/null || true
    done
    for name in "$@"; do
        wait_until 15 "'$name' to end" ended "$name" || kill -KILL -- "-${pids[$name]}" 2>/dev/null || true
        unset "pids[$name]"
    done
}

# --- stacks -----------------------------------------------------------------------------------------------

# Nothing of them may be there yet: what an earlier test left would be taken for this one's.
stack_use() {
    local stack
    for stack in "$@"; do
        expect_equal "$(stack_objects "$stack")$(stack_containers "$stack")" "" "left of stack '$stack' by somebody else"
        at_end "stack_remove $stack"
    done
}

stack_remove() {
    local node
    if [[ -n $(stack_objects "$1") ]]; then
        timeout 60 "$muster" rm "$1" >/dev/null 2>&1 || say "stack '$1' could not be removed"
    fi
    wait_until 20 "the containers of stack '$1' to go" stack_has_no_containers "$1" || true
    for node in $MUSTER_LAB_NODES; do
        docker_at "$node" volume ls -q --filter "label=com.docker.stack.namespace=$1" |
            xargs -r "$docker_program" -H "unix://$(node_socket "$node")" volume rm >/dev/null 2>&1 || true
    done
}

# Workload 1 whose workers are asked for their health often: a task counts as running after the first answer.
# Prints the copy's name.
quick_workload() {
    sed -e 's/interval: 10s/interval: 300ms/' -e 's/start_period: 20s/start_period: 30s/' \
        -e "s|\.\./\.\./trainer|$source_root/trainer|" "$stacks/workload1.yml" >"$test_folder/workload.yml"
    echo "$test_folder/workload.yml"
}

# One line for everything that the Swarm has of a stack, by label or by name.
stack_objects() {
    local kind
    for kind in service network secret config; do
        {
            docker "$kind" ls --filter "label=com.docker.stack.namespace=$1" --format "$kind {{.Name}}"
            docker "$kind" ls --filter "name=$1_" --format "$kind {{.Name}}" | grep "^$kind $1_" || true
        } | sort -u
    done
}

stack_containers() {
    local node
    for node in $MUSTER_LAB_NODES; do
        docker_at "$node" ps -a --filter "label=com.docker.stack.namespace=$1" --format "$node {{.Names}} {{.Status}}"
    done
}
stack_has_no_containers() { [[ -z $(stack_containers "$1") ]]; }

stack_is_gone() { [[ -z $(stack_objects "$1") ]]; }

# Networks of a stack on the nodes go with the last container; the engines delete those in their own time.
expect_stack_gone() {
    expect_equal "$(stack_objects "$1")" "" "left of stack '$1' in the swarm"
    wait_until 20 "the containers of stack '$1' to go" stack_has_no_containers "$1" ||
        fail "containers of stack '$1' are left: $(stack_containers "$1")"
}

# container_of STACK SERVICE: sets $node, $container and $pid of its running task.
container_of() {
    local each found
    node='' container='' pid=''
    for each in $MUSTER_LAB_NODES; do
        found=$(docker_at "$each" ps -q --no-trunc --filter "label=com.docker.swarm.service.name=$1_$2")
        [[ -n $found ]] || continue
        node=$each container=${found%%$'\n'*}
        pid=$(docker_at "$node" inspect --format '{{.State.Pid}}' "$container" 2>/dev/null) || pid=''
    done
    [[ -n $pid && $pid != 0 ]]
}

tasks_of() { docker stack ps -q --no-trunc "$1" | sort; }
tasks_running() { (($(docker stack ps "$1" --filter desired-state=running --format '{{.CurrentState}}' | grep -c '^Running') == $2)); }

# The run folder that `muster run` named in its summary.
run_folder() { sed -n 's/^run folder: *//p' <<<"$result"; }

# A python with numpy; pyenv and its like hide the system's.
numpy_python() {
    local each
    for each in python3 /usr/bin/python3; do
        if "$each" -c 'import numpy' 2>/dev/null; then
            echo "$each"
            return
        fi
    done
    fail "no python3 with numpy (python3-numpy)"
}
