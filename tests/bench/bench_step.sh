#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench_step.sh FOLDER AGENT [--no-lab] [--steps N] [--rates RATE,RATE,...] [--kinds KIND,...] [--json FILE]
#
# First whole steps of one worker on one thread, by bench_step, beside torch on one thread, in turns. Then steps of three
# workers, one thread each, in the network namespaces of containers on a lab's overlay, with links as they are and shaped:
# the agent with each kind of exchange, and torch's DistributedDataParallel over gloo with each of its settings, of which
# the fastest counts. FOLDER holds the benchmarks' programs, AGENT is muster-agent. The lab needs root, an engine and
# python3-torch; without torch its columns stay empty.
# shellcheck source=tests/lab/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lab/lib.sh"

# Who sets these wants one of OpenBLAS's kernels on many machines. Here each program shall have its best one.
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE

folder=$(readlink -e "${1:?folder of bench_step}") agent=$(readlink -e "${2:?path of muster-agent}")
shift 2
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
json=/dev/null with_lab=true steps=60 rates=none,1gbit,100mbit kinds=ring,direct,factors,sharded,auto
readonly WORKERS=3 PYTHON=/usr/bin/python3 PORT=7070
while (($#)); do
    case $1 in
    --no-lab)
        with_lab=false
        shift
        continue
        ;;
    --steps) steps=${2-} && shift ;;
    --rates) rates=${2-} && shift ;;
    --kinds) kinds=${2-} && shift ;;
    --json) json=${2-} && shift ;;
    *) usage_error "bench_step.sh: unknown option '$1'" ;;
    esac
    shift || usage_error "bench_step.sh: an option lacks its value"
done
[[ $steps =~ ^[1-9][0-9]{0,3}$ ]] || usage_error "bench_step.sh: --steps $steps: expected 1 to 9999"
type -P jq >/dev/null || die 1 "needs jq (apt-get install jq)"
with_torch=false
"$PYTHON" -c 'import torch, numpy' 2>/dev/null && with_torch=true

lab_test
: >"$json"

# The beginnings of MNIST's files: the same samples for both, and no long test at the end.
data=$test_folder/data
mkdir "$data"
for part in train:00001770:6000 t10k:00000064:100; do
    IFS=: read -r set hex count <<<"$part"
    bytes="\\x${hex:0:2}\\x${hex:2:2}\\x${hex:4:2}\\x${hex:6:2}"
    { printf '\x00\x00\x08\x03%b\x00\x00\x00\x1c\x00\x00\x00\x1c' "$bytes"
        zcat "$source_dir/data/mnist/$set-images-idx3-ubyte.gz" 2>/dev/null | tail -c +17 | head -c $((count * 784)) || true
    } >"$data/$set-images-idx3-ubyte"
    { printf '\x00\x00\x08\x01%b' "$bytes"
        zcat "$source_dir/data/mnist/$set-labels-idx1-ubyte.gz" 2>/dev/null | tail -c +9 | head -c "$count" || true
    } >"$data/$set-labels-idx1-ubyte"
done

# --- one worker ---
for ((turn = 0; turn < 3; turn++)); do
    "$folder/bench_step" --steps 150 --json "$test_folder/alone$turn" >/dev/null
    ! $with_torch || "$PYTHON" "$source_dir/tests/bench/ddp_steps.py" --data "$data" --steps 150 >"$test_folder/torch$turn"
done
torch=null
! $with_torch || torch=$(jq -s -c 'min_by(.median_ms)' "$test_folder"/torch?)
jq -s -c --argjson torch "$torch" 'min_by(.step_median_ms) + {torch_min_ms: $torch.min_ms, torch_median_ms: $torch.median_ms} |
    .of_bare = .step_median_ms / .bare_median_ms |
    .of_torch = (if .torch_median_ms then .step_median_ms / .torch_median_ms else null end)' "$test_folder"/alone? |
    tee -a "$json" |
    jq -r '"one worker, one thread, ms a step (median of the best of three turns)",
        "  bench_step \(.step_median_ms)   bare products \(.bare_median_ms)   torch \(.torch_median_ms // "-")",
        "  \(.of_bare * 100 | round) % of the bare products (wanted: at most 115 %), \(
          if .of_torch then "\(.of_torch * 100 | round) % of torch (wanted: at most 100 %)" else "no torch here" end)"'
$with_lab || exit 0

# --- idle containers, one a node ---
lab_own_folder
run 120 "$lab" up -n $WORKERS
expect_status 0
eval "$("$lab" env)"
docker() { "$MUSTER_DOCKER" "$@"; }
for ((i = 1; i <= WORKERS; i++)); do
    tiny_image "$(node_socket "node$i")" muster/idle:bench
done
docker network create -d overlay --attachable bench >/dev/null
docker service create -q -d --name idle --mode global --network bench --endpoint-mode dnsrr --stop-signal KILL \
    --no-resolve-image muster/idle:bench "$(type -P sleep)" 3600 >/dev/null
running() { [[ $(docker service ps idle --filter desired-state=running --format '{{.CurrentState}}' | grep -c '^Running') -eq $WORKERS ]]; }
wait_until 30 "an idle container on each node" running
addresses=() pids=()
for ((i = 1; i <= WORKERS; i++)); do
    socket=unix://$(node_socket "node$i")
    container=$(docker -H "$socket" ps -q | head -n 1)
    pids+=("$(docker -H "$socket" inspect -f '{{.State.Pid}}' "$container")")
    addresses+=("$(docker -H "$socket" inspect -f '{{.NetworkSettings.Networks.bench.IPAddress}}' "$container")")
done
become() { exec nsenter --net="/proc/${pids[$1]}/ns/net" -- "${@:2}"; } # as in bench_ring.sh
list=$(IFS=, && echo "${addresses[*]}")
interface=$(become 0 ip -o -4 addr show to "${addresses[0]}" | awk '{ print $2 }')

# together NAME CMD...: as many at once, with each worker's number for @
together() {
    local name=$1 i jobs=()
    shift
    for ((i = 0; i < WORKERS; i++)); do
        become "$i" "${@//@/$i}" >"$test_folder/$name$i.out" 2>"$test_folder/$name$i.err" &
        jobs+=($!)
    done
    for i in "${!jobs[@]}"; do
        wait "${jobs[i]}" || fail "$name, worker $i: $(tail -n 3 "$test_folder/$name$i.err")"
    done
}

# agents RATE KIND STEPS: a line of JSON
agents() {
    rm -rf "$test_folder"/out?
    together agent "$agent" train --model "$source_dir/trainer/models/mnist-cnn.json" --data "$data" --insecure \
        --peers "$list" --workers $WORKERS --exchange "$2" --threads 1 --epochs 1 --steps "$3" --step-log \
        --out "$test_folder/out@" --slot "w@" --user none --port $PORT
    # The first steps also fetch memory and open windows.
    awk -F, 'NR > 4 { print $6, $9, $12 }' "$test_folder/out0/steps-w0.csv" | sort -n |
        awk -v rate="$1" -v kind="$2" -v chosen="$(jq -r 'select(.event == "exchange").kind' "$test_folder/agent0.out" | head -n 1)" \
            '{ ms[NR] = $1; bytes = $3 } END { printf "{\"rate\":\"%s\",\"kind\":\"%s\",\"chosen\":\"%s\",\"min_ms\":%.3f,\"median_ms\":%.3f,\"bytes_sent\":%d}\n",
            rate, kind, chosen, ms[1], ms[int((NR + 1) / 2)], bytes }'
}

# turn RATE STEPS: DDP with each of its settings, then the agent with each kind, as lines of JSON; the kinds' with their
# share of DDP's time in the same turn
turn() {
    local ddp=null kind
    if $with_torch; then
        together ddp "$PYTHON" "$source_dir/tests/bench/ddp_steps.py" --data "$data" --steps "$(($2 / 2 + 3))" \
            --rank @ --world $WORKERS --master "${addresses[0]}:29500" --interface "$interface"
        ddp=$(jq -s -c 'min_by(.median_ms)' "$test_folder/ddp0.out")
        jq -c --arg rate "$1" '{rate: $rate, kind: "torch DDP", bytes_sent: 0} + .' <<<"$ddp"
    fi
    for kind in ${kinds//,/ }; do
        agents "$1" "$kind" "$(($2 + 4))" |
            jq -c --argjson ddp "$ddp" '.of_ddp = (if $ddp then .median_ms / $ddp.median_ms else null end)'
    done
}

printf '\nthree workers, one thread each, on the overlay: ms a step (rank 0), medians of turns, by DDP of the same turn\n'
printf '%-8s %-28s %9s %9s %9s  %s\n' links exchange min median bytes 'of DDP (least to most)'
for rate in ${rates//,/ }; do
    # What disturbs the machine for a second changes one turn. Where links are slow they alone tell how long it takes.
    turns=3 count=$((steps / 2))
    case $rate in
    none) ;;
    *gbit) count=$((steps < 40 ? count : 20)) ;;
    *) turns=1 count=$((steps < 10 ? steps : 10)) ;;
    esac
    if [[ $rate != none ]]; then
        for ((i = 1; i <= WORKERS; i++)); do "$lab" shape "node$i" "$rate"; done
    fi
    : >"$test_folder/turns"
    for ((i = 0; i < turns; i++)); do turn "$rate" "$count" >>"$test_folder/turns"; done
    jq -s -c 'def middle: sort | .[length / 2 | floor];
        [.[].kind] as $order | group_by(.kind) | sort_by(.[0].kind as $kind | $order | index($kind))[] | . as $turns |
        $turns[0] + {
            turns: length, min_ms: ([$turns[].min_ms] | min), median_ms: ([$turns[].median_ms] | middle),
            chosen: ([$turns[].chosen] | unique | map(. // "") | join("/")),
            setting: ($turns | min_by(.median_ms).setting // ""),
            of_ddp: ([$turns[].of_ddp // empty] | if length > 0 then middle else null end),
            of_ddp_least: ([$turns[].of_ddp // empty] | min),
            of_ddp_most: ([$turns[].of_ddp // empty] | max)}' "$test_folder/turns" |
        tee -a "$json" "$test_folder/results" |
        jq -r 'def percent: if . then . * 100 | round | tostring + " %" else "" end;
            [.rate,
            .kind + (if .kind == "auto" then ": " + .chosen elif .setting != "" then ", " + .setting else "" end),
            .min_ms, .median_ms, .bytes_sent,
            if .of_ddp then .of_ddp, .of_ddp_least, .of_ddp_most else null end] |
            .[5:] |= [if .[0] then "\(.[0] | percent) (\(.[1] | percent) to \(.[2] | percent))" else "" end] | @tsv' |
        awk -F'\t' '{ printf "%-8s %-28s %9.1f %9.1f %9d  %s\n", $1, $2, $3, $4, $5, $6 }'
done
jq -s -r '[["none", "ring", 0.8], ["none", "sharded", 0.65], ["1gbit", "auto", 0.35], ["100mbit", "auto", 0.07]][] as $w |
    .[] | select(.rate == $w[0] and .kind == $w[1] and .of_ddp) |
    "\(.kind), links \(.rate): \(.of_ddp * 100 | round) % of DDP (\(if .of_ddp <= $w[2] then "as wanted" else "wanted" end): at most \($w[2] * 100 | round) %)"' \
    "$test_folder/results"
