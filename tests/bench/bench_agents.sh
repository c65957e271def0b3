#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench_agents.sh AGENT [--workers N,N,...] [--json FILE]: N agents as processes in network namespaces of their own, the
# reference model with batch 8: from the start of the last one until each has found all others and holds the view, and
# until each has made its first step. Then one of them is killed: until the others make their next step. Times in
# milliseconds; the slowest worker counts. The data are the first 1000 images, so that reading them is no part of it.
set -euo pipefail

MUSTER_AGENT=${1:?path of muster-agent}
shift
counts=3,8,16,32,64
json=/dev/null
while (($#)); do
    case $1 in
    --workers) counts=$2 && shift ;;
    --json) json=$2 && shift ;;
    *) echo "bench_agents.sh: unknown option '$1'" >&2 && exit 2 ;;
    esac
    shift
done
export MUSTER_AGENT
# shellcheck source=../agent/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../agent/lib.sh"

# over_all min|max EVENT KEY: of the values in each worker's first such event. One program for all files, so that the
# machine is left to the workers; a last line may be half written.
over_all() {
    local files=("${running[@]/#/$work/w}")
    files=("${files[@]/%/.out}")
    jq -n -r -R --arg event "$2" --arg key "$3" \
        'reduce (inputs | {file: input_filename, line: (fromjson? // {})} | select(.line.event == $event)) as $i
            ({}; .[$i.file] //= $i.line[$key]) | [.[]] | '"$1" "${files[@]}"
}

wait_all() { # wait_all SECONDS PATTERN
    local i
    for i in "${running[@]}"; do
        wait_for "$1" "$work/w$i.out" "$2"
    done
}

end_worker() {
    disown "${pid_of[$1]}" # without the shell's own "Killed"
    kill -KILL "${pid_of[$1]}"
    while kill -0 "${pid_of[$1]}" 2>/dev/null; do
        read -r -t 0.02 <> <(:) || true
    done
}

bench() {
    local n=$1 i
    train_options "$n"
    export MUSTER_EPOCHS=1000 MUSTER_STEPS=1000 MUSTER_BATCH=8 MUSTER_THREADS=1
    running=()
    for ((i = 1; i <= n; i++)); do
        worker "$i" --state "$work/state$i"
        pid_of[i]=$last_pid
        running+=("$i")
    done
    wait_all 120 '"event":"first_step"'
    # The last to start has the shortest way: all others are there and wait for it.
    local agreed step
    agreed=$(over_all min view since_start_ms)
    step=$(over_all min first_step since_start_ms)
    end_worker "$n"
    unset 'running[n-1]'
    wait_all 120 '"event":"recovered"'
    printf '%7d %12.0f %12.0f %12.0f %12.0f %12.0f %12.0f\n' "$n" "$agreed" "$step" "$(over_all max recovered detected_ms)" \
        "$(over_all max recovered agreed_ms)" "$(over_all max recovered ready_ms)" "$(over_all max recovered ms)"
    jq -n -c --argjson n "$n" --argjson agreed "$agreed" --argjson step "$step" --argjson ms "$(over_all max recovered ms)" \
        --argjson change "$(over_all max recovered agreed_ms)" \
        '{workers: $n, agreed_ms: $agreed, first_step_ms: $step, change_agreed_ms: $change, recovered_ms: $ms}' >>"$json"
    for i in "${running[@]}"; do
        end_worker "$i"
    done
    pids=()
    rm -rf "$work"/state* "$work"/w*
}

# The kernel's neighbour table is one for all namespaces of a machine, and N agents on one need N * N places in it. On
# machines of their own they need N each.
limit=/proc/sys/net/ipv4/neigh/default/gc_thresh3
limit_before=$(cat "$limit")
make_room() { # make_room N
    local needed=$((2 * $1 * $1))
    if ((needed > limit_before)); then
        echo "$needed" >"$limit" || fail "$1 agents on one machine need $limit to be $needed, not $limit_before"
    fi
}
trap 'status=$?; [ "$(cat "$limit")" = "$limit_before" ] || echo "$limit_before" >"$limit"; (exit "$status"); cleanup' EXIT

# namespaces_of N: no more than N, for every one that answers is asked by all
namespaces_of() {
    local name
    for name in $(ip netns list 2>/dev/null | awk -v p="$prefix-" 'index($1, p) == 1 { print $1 }'); do
        ip netns delete "$name"
    done
    make_room "$1"
    namespaces "$1"
}

: >"$json"
make_key
declare -a running
printf '%7s %12s %12s %12s %12s %12s %12s\n' workers 'agreed ms' 'first step' 'lost: seen' 'agreed' 'ready' 'next step'
for n in ${counts//,/ }; do
    namespaces_of "$n"
    bench "$n"
done
