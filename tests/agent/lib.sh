# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Agents as plain processes in network namespaces of their own, joined by a bridge that leads nowhere else.
# Source it, call namespaces N, then agent I ARGS... ; everything is taken down when the script ends.
set -euo pipefail

: "${MUSTER_AGENT:?path of the muster-agent to test}"
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/muster-agent-test.XXXXXX")
prefix="mst$$"
patience=${MUSTER_TEST_PATIENCE:-1} # times as long for slow builds
pids=()

fail() {
    echo "FAILED: $*" >&2
    for log in "$work"/*.out "$work"/*.err; do
        [ -s "$log" ] && { echo "--- $log"; tail -n 20 "$log"; } >&2
    done
    exit 1
}

need_rights() {
    if ip netns add "$prefix-probe" 2>/dev/null; then
        ip netns delete "$prefix-probe"
        return
    fi
    if [ -n "${CI:-}" ]; then
        fail "no right to make network namespaces, and CI is set"
    fi
    echo "skipped: no right to make network namespaces"
    exit 77
}

cleanup() {
    local status=$? pid
    for pid in "${pids[@]}"; do
        kill -KILL "$pid" 2>/dev/null || true
    done
    wait 2>/dev/null || true
    local name
    for name in $(ip netns list 2>/dev/null | awk -v p="$prefix-" 'index($1, p) == 1 { print $1 }'); do
        ip netns delete "$name"
    done
    rm -rf "$work"
    exit "$status"
}
trap cleanup EXIT

# namespaces N [SUBNET_PREFIX]: N hosts 10.99.0.1 .. N on one bridge
namespaces() {
    local count=$1 i
    need_rights
    ip netns add "$prefix-fabric"
    ip -n "$prefix-fabric" link add br0 type bridge forward_delay 0
    ip -n "$prefix-fabric" link set br0 up
    for ((i = 1; i <= count; i++)); do
        ip netns add "$prefix-$i"
        ip -n "$prefix-$i" link set lo up
        ip -n "$prefix-$i" link add eth0 type veth peer name "v$i" netns "$prefix-fabric"
        ip -n "$prefix-fabric" link set "v$i" master br0 up
        ip -n "$prefix-$i" addr add "10.99.0.$i/24" dev eth0
        ip -n "$prefix-$i" link set eth0 up
    done
}

# inside I CMD...: run in namespace I
inside() {
    local i=$1
    shift
    ip netns exec "$prefix-$i" "$@"
}

# background I CMD...: the same beside the test, ended with it; pid in $last_pid. exec, so that it is the pid of CMD and
# not of a subshell whose child would outlive it and hold on to the test's output.
background() {
    local i=$1
    shift
    exec ip netns exec "$prefix-$i" "$@" &
    last_pid=$!
    pids+=("$last_pid")
}

make_key() {
    head -c 32 /dev/urandom >"$work/${1:-key}"
    chmod 600 "$work/${1:-key}"
}

# agent NAME I VERB ARGS...: start one in namespace I; output in $work/NAME.out and .err, pid in $last_pid
agent() {
    local name=$1 i=$2
    shift 2
    mkdir -p "$work/$name"
    # exec, so that the pid is the agent's own and not a subshell's
    exec ip netns exec "$prefix-$i" "$MUSTER_AGENT" "$@" --slot "$name" >"$work/$name.out" 2>"$work/$name.err" &
    last_pid=$!
    pids+=("$last_pid")
}

# finish PID SECONDS: its exit status in $status; fails when it does not end
finish() {
    local deadline=$((SECONDS + $2 * patience))
    while kill -0 "$1" 2>/dev/null; do
        [ "$SECONDS" -lt "$deadline" ] || fail "process $1 did not end within $2 s"
        read -r -t 0.05 <> <(:) || true
    done
    status=0
    wait "$1" 2>/dev/null || status=$? # without the shell's own "Killed"
}

# wait_for SECONDS FILE PATTERN
wait_for() {
    local deadline=$((SECONDS + $1 * patience))
    until grep -q -- "$3" "$2" 2>/dev/null; do
        [ "$SECONDS" -lt "$deadline" ] || fail "'$3' did not appear in $(basename "$2") within $1 s"
        read -r -t 0.05 <> <(:) || true
    done
}

# field FILE EVENT KEY: a value of the first such event
field() {
    jq -r --arg e "$2" 'select(.event == $e) | .'"$3" "$1" | head -n 1
}

# must_end PID SECONDS STATUS WHO
must_end() {
    finish "$1" "$2"
    [ "$status" -eq "$3" ] || fail "$4 ended with status $status, not $3"
}

# has_event FILE EVENT KEY TEXT: such an event's value contains the text
has_event() {
    jq -e -s --arg e "$2" --arg t "$4" 'any(.[]; .event == $e and (.'"$3"' | tostring | contains($t)))' "$1" >/dev/null
}

# small_data: the beginnings of MNIST's files in $work/data, so that the test at the end takes no time
small_data() {
    local set count
    mkdir -p "$work/data"
    for set in train:1000 t10k:100; do
        count=$(printf '%08x' "${set#*:}")
        count="\\x${count:0:2}\\x${count:2:2}\\x${count:4:2}\\x${count:6:2}"
        set -- "${set%:*}" "${set#*:}"
        { printf '\x00\x00\x08\x03'"$count"'\x00\x00\x00\x1c\x00\x00\x00\x1c'
            zcat "$source_dir/data/mnist/$1-images-idx3-ubyte.gz" 2>/dev/null | tail -c +17 | head -c $(($2 * 784)) || true
        } >"$work/data/$1-images-idx3-ubyte"
        { printf '\x00\x00\x08\x01'"$count"
            zcat "$source_dir/data/mnist/$1-labels-idx1-ubyte.gz" 2>/dev/null | tail -c +9 | head -c "$2" || true
        } >"$work/data/$1-labels-idx1-ubyte"
    done
}

# train_options WORKERS: what all agents of a test share, in the array `common` and in the environment, so that a test
# can still say otherwise; small enough for a build with sanitizers. MUSTER_TEST_MODEL: another model, for sanitizers,
# with which a step of the workload's takes seconds.
train_options() {
    [ -d "$work/data" ] || small_data
    export MUSTER_EPOCHS=1 MUSTER_STEPS=3 MUSTER_BATCH=8 MUSTER_THREADS=1 MUSTER_WAIT=30s MUSTER_WORKERS=$1 MUSTER_USER=none
    common=(--model "${MUSTER_TEST_MODEL:-$source_dir/trainer/models/mnist-cnn.json}" --data "$work/data"
        --subnet 10.99.0.0/24 --key-file "$work/key")
}

# worker I ARGS...: agent wI of `common` in namespace I
worker() {
    local i=$1
    shift
    agent "w$i" "$i" train "${common[@]}" --out "$work/w$i" "$@"
}

# surviving I ARGS...: worker I with state of its own, so that it can be started again; its pid in pid_of[I]
pid_of=()
surviving() {
    local i=$1
    shift
    worker "$i" --state "$work/state$i" "$@"
    pid_of[$i]=$last_pid
}

# undisturbed I SHARDS: one worker that does the shards of so many, in a cluster of its own, and nothing happens to it
undisturbed() {
    agent undisturbed "$1" train "${common[@]}" --workers "1:$2" --cluster undisturbed --out "$work/undisturbed"
    undisturbed_pid=$last_pid
}

# all_finish I...: those workers, and the undisturbed one, end well, with the same model; nothing is left in --state
all_finish() {
    local i digest
    for i in "$@"; do
        must_end "${pid_of[$i]}" 100 0 "w$i"
    done
    must_end "$undisturbed_pid" 100 0 "the undisturbed one"
    digest=$(field "$work/undisturbed.out" done digest)
    for i in "$@"; do
        [ "$(field "$work/w$i.out" done digest)" = "$digest" ] ||
            fail "the model of w$i is not that of an undisturbed run"
        [ -z "$(find "$work/state$i" -type f)" ] || fail "state of a finished job stays behind in state$i"
    done
}
