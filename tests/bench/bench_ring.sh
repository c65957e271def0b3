#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench_ring.sh FOLDER [--rounds N] [--no-lab] [--nodes N] [--counts N,N,...] [--rate RATE] [--congestion NAME] [--json FILE]
#
# First sums over loopback, by bench_exchange. Then sums between containers on a lab's overlay, each worker in a node of
# its own, beside as many streams of iperf3 in a ring at the same time, which do nothing but move bytes. The two are
# timed in turns, three times. FOLDER holds the benchmarks' programs. They run in the network namespaces of idle containers, so
# that no image with them has to be made. Both use the same congestion control: cubic, Linux's own, unless another is
# named; bbr paces, which costs sums, that come in bursts, more than streams where only CPUs limit. The lab needs root, an
# engine and iperf3.
# shellcheck source=tests/lab/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lab/lib.sh"

folder=$(readlink -e "${1:?folder of bench_exchange_node}")
shift
nodes=4 counts=1000,1000000,2000000,2770636 rate='' congestion=cubic json=/dev/null rounds=20 with_lab=true
readonly SECONDS_EACH=1 PORT=5201 TURNS=3 LARGE_BYTES=8000000 LEAST_SHARE=0.75
while (($#)); do
    case $1 in
    --no-lab)
        with_lab=false
        shift
        continue
        ;;
    --rounds) rounds=${2-} && shift ;;
    --nodes) nodes=${2-} && shift ;;
    --counts) counts=${2-} && shift ;;
    --rate) rate=${2-} && shift ;;
    --congestion) congestion=${2-} && shift ;;
    --json) json=${2-} && shift ;;
    *) usage_error "bench_ring.sh: unknown option '$1'" ;;
    esac
    shift || usage_error "bench_ring.sh: an option lacks its value"
done
[[ $nodes =~ ^[2-9]$ ]] || usage_error "bench_ring.sh: --nodes $nodes: expected 2 to 9"

printf 'over loopback\n'
"$folder/bench_exchange" --exchange ring --rounds "$rounds" --json "$json"
$with_lab || exit 0

for program in iperf3 jq; do
    type -P "$program" >/dev/null || die 1 "needs $program (apt-get install $program)"
done

lab_test
lab_own_folder
run 120 "$lab" up -n "$nodes"
expect_status 0
eval "$("$lab" env)"
docker() { "$MUSTER_DOCKER" "$@"; }

# --- idle containers, one a node ---
for ((i = 1; i <= nodes; i++)); do
    tiny_image "$(node_socket "node$i")" muster/idle:bench
done
docker network create -d overlay --attachable bench >/dev/null
docker service create -q -d --name idle --mode global --network bench --endpoint-mode dnsrr --stop-signal KILL \
    --no-resolve-image muster/idle:bench "$(type -P sleep)" 3600 >/dev/null
running() { [[ $(docker service ps idle --filter desired-state=running --format '{{.CurrentState}}' | grep -c '^Running') -eq $nodes ]]; }
wait_until 30 "an idle container on each node" running

addresses=() pids=()
for ((i = 1; i <= nodes; i++)); do
    socket=unix://$(node_socket "node$i")
    container=$(docker -H "$socket" ps -q | head -n 1)
    pids+=("$(docker -H "$socket" inspect -f '{{.State.Pid}}' "$container")")
    addresses+=("$(docker -H "$socket" inspect -f '{{.NetworkSettings.Networks.bench.IPAddress}}' "$container")")
done
# become I CMD...: in a subshell or the background, whose pid is then CMD's own. A kill of a shell in between would not
# reach it: iperf3's servers would outlive the lab, and keep its namespaces.
become() { exec nsenter --net="/proc/${pids[$1]}/ns/net" -- "${@:2}"; }
at() { (become "$@"); }
if [[ -n $rate ]]; then
    for ((i = 1; i <= nodes; i++)); do "$lab" shape "node$i" "$rate"; done
fi

# --- streams ---
servers=()
for ((i = 0; i < nodes; i++)); do
    become "$i" iperf3 -s -p $PORT >"$test_folder/server$i" 2>&1 &
    servers+=($!)
done
# shellcheck disable=SC2016 # expanded at the end
at_end 'kill "${servers[@]}" 2>/dev/null'
listening() { at "$1" bash -c ": <>/dev/tcp/${addresses[$1]}/$PORT" 2>/dev/null; }
for ((i = 0; i < nodes; i++)); do
    wait_until 10 "iperf3 to listen" listening "$i"
done

# streams WORLD: one from each to the next, all at once; their mean in MB/s
streams() {
    local world=$1 i jobs=()
    for ((i = 0; i < world; i++)); do
        become "$i" iperf3 -c "${addresses[(i + 1) % world]}" -p $PORT -C "$congestion" -t $SECONDS_EACH -O 0.5 -J >"$test_folder/stream$i" 2>&1 &
        jobs+=($!)
    done
    for i in "${!jobs[@]}"; do
        wait "${jobs[i]}" || fail "iperf3: $(jq -r .error "$test_folder/stream$i" 2>/dev/null)"
    done
    for ((i = 0; i < world; i++)); do
        jq '.end.sum_received.bits_per_second / 8e6' "$test_folder/stream$i"
    done | awk '{ sum += $1 } END { printf "%.1f\n", sum / NR }'
}

# sums WORLD KIND: lines of JSON, one for each count
sums() {
    local world=$1 i list jobs=()
    list=$(IFS=, && echo "${addresses[*]:0:world}")
    for ((i = 0; i < world; i++)); do
        become "$i" "$folder/bench_exchange_node" --rank "$i" --addresses "$list" --exchange "$2" --counts "$counts" \
            --congestion "$congestion" --seconds $SECONDS_EACH >"$test_folder/sums$i" 2>"$test_folder/errors$i" &
        jobs+=($!)
    done
    for i in "${!jobs[@]}"; do
        wait "${jobs[i]}" || fail "worker $i: $(cat "$test_folder/errors$i")"
    done
    cat "$test_folder/sums0"
}

printf 'on the overlay%s, %s      iperf3: each of N streams in a ring at once\n' "${rate:+, $rate a node}" "$congestion"
printf 'exchange world     floats     min ms  median ms   bus MB/s  iperf3 MB/s  share\n'
# rows BEFORE AFTER: the sums just made, with their share of the mean of the streams before and after them
rows() {
    jq -c --argjson before "$1" --argjson after "$2" --arg rate "$rate" --arg congestion "$congestion" \
        '. + {stream_mb_s: (($before + $after) / 2), rate: $rate, congestion: $congestion} |
        .share = .bus_mb_s / .stream_mb_s'
}

for ((world = 2; world <= nodes; world++)); do
    : >"$test_folder/all"
    stream=$(streams "$world")
    for ((turn = 0; turn < TURNS; turn++)); do
        for kind in ring direct; do
            sums "$world" $kind >"$test_folder/sums"
            before=$stream stream=$(streams "$world")
            rows "$before" "$stream" <"$test_folder/sums" >>"$test_folder/all"
        done
    done
    # The turn in the middle, by the share: what disturbs a machine for a second changes one turn.
    jq -s -c 'group_by(.bench, .count)[] | sort_by(.share) | .[length / 2 | floor]' "$test_folder/all" |
        tee -a "$json" "$test_folder/results" |
        jq -r '[.bench, .world, .count, .min_ms, .median_ms, .bus_mb_s, .stream_mb_s, .share] | @tsv' |
        awk '{ printf "%-8s %5d %10d %10.3f %10.3f %10.1f %12.1f %6.2f\n", $1, $2, $3, $4, $5, $6, $7, $8 }'
done
jq -s -r --argjson large $LARGE_BYTES --argjson least $LEAST_SHARE '[.[] | select(.bench == "ring" and .world <= 4 and .count * 4 >= $large) |
    .share] | if length == 0 then empty else "ring, from 8 MB up: at least \(min * 100 | round) % of a stream (\(
    if min >= $least then "as wanted" else "wanted: \($least * 100) %" end))" end' "$test_folder/results"
