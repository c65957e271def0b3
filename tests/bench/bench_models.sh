#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench_models.sh AGENT [--seeds N,N,...] [--json FILE]: what the shipped models come to with their recipes. Each is trained
# with each seed, alone on this machine's cores; and mnist-lenet again by three agents as processes in network namespaces,
# each with a third of the steps of an epoch, so that as many samples are seen. Accuracy on the test data, and the seconds
# that the whole process took, its reading of data and its writing of files included.
set -euo pipefail

MUSTER_AGENT=${1:?path of muster-agent}
shift
seeds=1,2,3
json=/dev/null
while (($#)); do
    case $1 in
    --seeds) seeds=${2:?--seeds needs a value} && shift ;;
    --json) json=${2:?--json needs a value} && shift ;;
    *) echo "bench_models.sh: unknown option '$1'" >&2 && exit 2 ;;
    esac
    shift
done
[[ $seeds =~ ^[0-9]+(,[0-9]+)*$ ]] || { echo "bench_models.sh: --seeds $seeds: expected numbers" >&2 && exit 2; }
IFS=, read -ra seeds <<<"$seeds"
export MUSTER_AGENT
# shellcheck source=../agent/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../agent/lib.sh"
readonly WORLD=3 LIMIT_S=600 LENET_STEPS=312 # a third of 60,000 / 64
unset OPENBLAS_CORETYPE # what muster finds by itself

# given MODEL DATA SEED: the arguments of a training
given() {
    arguments=(--model "$source_dir/trainer/models/$1.json" --recipe "$source_dir/trainer/recipes/$1.json"
        --data "$source_dir/data/$2" --seed "$3")
}

# note MODEL WORKERS SEED FROM_MS: a row of what the training that has just ended wrote
note() {
    jq -c --arg model "$1" --argjson workers "$2" --argjson seed "$3" --argjson ms "$(($(now_ms) - $4))" \
        'select(.event == "test") | {bench: "models", $model, $workers, $seed, accuracy, seconds: ($ms / 1000)}' \
        "$work/w1.out" | tee -a "$json" "$work/rows" |
        jq -r '[.model, .workers, .seed, .accuracy * 100, .seconds] | @tsv' |
        awk '{ printf "%-12s %7d %5d %10.2f %8.1f\n", $1, $2, $3, $4, $5 }'
}

now_ms() { date +%s%3N; }

# alone MODEL DATA SEED
alone() {
    local from_ms
    from_ms=$(now_ms)
    given "$@"
    "$MUSTER_AGENT" train --standalone --user none "${arguments[@]}" --out "$work/w1" \
        >"$work/w1.out" 2>"$work/w1.err" || fail "$1 with seed $3"
    note "$1" 1 "$3" "$from_ms"
}

# together MODEL DATA SEED STEPS
together() {
    local from_ms i started=()
    from_ms=$(now_ms)
    given "$1" "$2" "$3"
    for ((i = 1; i <= WORLD; i++)); do
        agent "w$i" "$i" train --user none --threads 1 --workers $WORLD --subnet 10.99.0.0/24 --key-file "$work/key" --steps "$4" \
            --out "$work/w$i" "${arguments[@]}"
        started+=("$last_pid")
    done
    for i in "${!started[@]}"; do
        must_end "${started[i]}" $LIMIT_S 0 "worker $((i + 1))"
    done
    note "$1" $WORLD "$3" "$from_ms"
}

: >"$json"
printf 'model        workers  seed  accuracy%% seconds\n'
namespaces $WORLD
make_key
for seed in "${seeds[@]}"; do alone letters-mlp letters "$seed"; done
for seed in "${seeds[@]}"; do alone mnist-lenet mnist "$seed"; done
for seed in "${seeds[@]}"; do together mnist-lenet mnist "$seed" $LENET_STEPS; done
jq -s -r 'group_by(.model, .workers)[] | [.[0].model, .[0].workers, (map(.accuracy) | add / length * 100),
    (map(.seconds) | max)] | @tsv' "$work/rows" |
    awk '{ printf "%-12s %7d  mean %10.2f %8.1f at most\n", $1, $2, $3, $4 }'
