#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What watching real containers costs, beside `docker stats` on the same ones: a lab of one node with sleeping
# containers; what the monitor, the engine (with its containerd and shims) and the client of `docker stats` use of a
# core; and how long a page takes. Needs root and what the lab needs. bench_monitor.sh calls it.
#
#     bench_monitor_engine.sh MUSTER_MONITOR [--containers N] [--seconds N] [--json FILE]
set -euo pipefail

monitor=$(realpath "${1:?path of muster-monitor}") containers=100 seconds=20 json=/dev/null
shift
while (($#)); do
    case $1 in
    --containers) containers=$2 && shift ;;
    --seconds) seconds=$2 && shift ;;
    --json) json=$2 && shift ;;
    *) echo "bench_monitor_engine.sh: unknown option '$1'" >&2 && exit 2 ;;
    esac
    shift
done
lab=$(cd "$(dirname "$0")/../../scripts" && pwd)/lab.sh
export MUSTER_LAB_DIR=/var/lib/muster-lab-bench-monitor
folder=$(mktemp -d)
pids=()

clean() {
    local pid
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    "$lab" down >&2 || true
    rm -rf "$folder"
}
trap clean EXIT

"$lab" up -n 1 >&2
eval "$("$lab" env)"
program=$(type -P sleep)
mkdir "$folder/stage"
{ echo "$program"; ldd "$program" | grep -o '/[^ ]*'; } | tar -C / -chf - -T - 2>/dev/null |
    tar -C "$folder/stage" -xf -
tar -C "$folder/stage" -cf - . | "$MUSTER_DOCKER" import - bench:1 >/dev/null
seq "$containers" | xargs -P 4 -I {} "$MUSTER_DOCKER" run -d --name "bench-{}" bench:1 sleep 1000000 >/dev/null

# CPU time in ticks of the processes with these ids, and of the engine with all that it has started beside containers.
ticks() {
    local files=("${@/#//proc/}")
    { cat "${files[@]/%//stat}" 2>/dev/null || true; } |
        awk '{ sub(/.*\) /, ""); sum += $12 + $13 } END { print sum + 0 }'
}
engine() {
    local comm pid group
    group=$(cut -d: -f3 "/proc/$(<"$MUSTER_LAB_DIR/nodes/node1/dockerd.pid")/cgroup" | grep -m1 muster-lab)
    for comm in /proc/[0-9]*/comm; do
        pid=${comm#/proc/} pid=${pid%/comm}
        case $(cat "$comm" 2>/dev/null) in
        dockerd | containerd*) if grep -q "${group%/*}" "/proc/$pid/cgroup" 2>/dev/null; then echo "$pid"; fi ;;
        esac
    done
}
mapfile -t engine_pids < <(engine)
hz=$(getconf CLK_TCK)

# measure NAME PID: over $seconds, what that process (0: none) and the engine used, in % of a core.
measure() {
    local pid=$2 mine theirs start
    mine=$(ticks "$pid") theirs=$(ticks "${engine_pids[@]}") start=$(date +%s.%N)
    read -r -t "$seconds" <> <(:) || true
    mine=$(($(ticks "$pid") - mine)) theirs=$(($(ticks "${engine_pids[@]}") - theirs))
    awk -v name="$1" -v mine="$mine" -v theirs="$theirs" -v hz="$hz" -v s="$start" -v e="$(date +%s.%N)" \
        'BEGIN { s = 100 / hz / (e - s); printf "%s %.2f %.2f\n", name, mine * s, theirs * s }' >>"$folder/table"
}

begin() { # COMMAND...: in the background, and long enough that the first passes are over
    "$@" >/dev/null 2>"$folder/log" &
    pids+=($!)
    read -r -t 3 <> <(:) || true
}
end() {
    kill "${pids[-1]}"
    wait "${pids[-1]}" || true
    unset 'pids[-1]'
}

measure nothing 0
begin "$monitor" record --interval 1s "$folder/file"
measure record "${pids[-1]}"
anonymous=$(awk '/^RssAnon/ { print $2 }' "/proc/${pids[-1]}/status")
descriptors=$(find "/proc/${pids[-1]}/fd" -mindepth 1 | wc -l)
end
begin "$MUSTER_DOCKER" stats --no-trunc
measure docker-stats "${pids[-1]}"
end
begin "$monitor" serve --web.listen-address 127.0.0.1:0 --record "$folder/file"
address=$(grep -om1 '127.0.0.1:[0-9]*' "$folder/log")
# Each page says how long reading the containers took: the rest until its first byte is building it, and the way there
# and back. The difference of two medians of different requests would be noise.
for ((i = 0; i < 50; i++)); do
    first=$(curl -so "$folder/page" -w '%{time_starttransfer}' "http://$address/metrics")
    awk -v first="$first" '/^muster_scrape_duration_seconds / { print 1000 * $2, 1000 * (first - $2) }' "$folder/page"
done >"$folder/pages"
median() { sort -n | awk '{ value[NR] = $1 } END { printf "%.2f", value[int((NR + 1) / 2)] }'; }
reading=$(cut -d' ' -f1 "$folder/pages" | median)
building=$(cut -d' ' -f2 "$folder/pages" | median)
packed=$(for ((i = 0; i < 50; i++)); do
    curl -so /dev/null -H 'Accept-Encoding: gzip' -w '%{time_total}\n' "http://$address/metrics"
done | awk '{ print 1000 * $1 }' | median)
samples=$(curl -s "http://$address/metrics" | grep -vc '^#')
serving=$(awk '/^RssAnon/ { print $2 }' "/proc/${pids[-1]}/status")
end

awk -v n="$containers" -v t="$seconds" -v anonymous="$anonymous" -v serving="$serving" -v fds="$descriptors" \
    -v reading="$reading" -v building="$building" -v packed="$packed" -v samples="$samples" -v json="$json" '
    { own[$1] = $2; engine[$1] = $3 }
    END {
        printf "%d containers of an engine, once a second for %d s, %% of a core:\n", n, t
        printf "  muster-monitor record  %6.2f, and the engine %6.2f (%.2f when nobody asks)\n",
            own["record"], engine["record"], engine["nothing"]
        printf "  docker stats           %6.2f, and the engine %6.2f\n", own["docker-stats"], engine["docker-stats"]
        printf "anonymous memory: %.1f MB recording, %.1f MB serving and recording; %d descriptors\n",
            anonymous / 1024, serving / 1024, fds
        printf "a page of %d series (medians of 50): read in %.1f ms, first byte %.1f later; %.1f in all with gzip\n",
            samples, reading, building, packed
        printf "{\"containers\":%d,\"core_percent\":%.2f,", n, own["record"] >json
        printf "\"engine_percent\":%.2f,\"idle_engine_percent\":%.2f,", engine["record"], engine["nothing"] >json
        printf "\"docker_stats_percent\":%.2f,", own["docker-stats"] >json
        printf "\"docker_stats_engine_percent\":%.2f,", engine["docker-stats"] >json
        printf "\"anonymous_mb\":%.1f,\"serving_mb\":%.1f,", anonymous / 1024, serving / 1024 >json
        printf "\"read_ms\":%.2f,\"build_ms\":%.2f,\"gzip_ms\":%.2f}\n", reading, building, packed >json
    }' "$folder/table"
