#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What watching costs: control groups with a sleeping process each (no engine is needed), sampled once a second into a
# recording, then scraped. Prints CPU, memory and how long a page takes. Needs root, for making control groups. Then
# bench_monitor_engine.sh does it with real containers, beside `docker stats`, unless the lab is left out.
#
#     bench_monitor.sh MUSTER_MONITOR [--containers N] [--seconds N] [--no-lab] [--json FILE]
set -euo pipefail

monitor=${1:?path of muster-monitor} containers=100 seconds=30 json=/dev/null with_lab=1
shift
while (($#)); do
    case $1 in
    --containers) containers=$2 && shift ;;
    --seconds) seconds=$2 && shift ;;
    --json) json=$2 && shift ;;
    --no-lab) with_lab='' ;;
    *) echo "bench_monitor.sh: unknown option '$1'" >&2 && exit 2 ;;
    esac
    shift
done
root=/sys/fs/cgroup group=muster-bench-$$ port=0
controllers=(cpu cpuacct memory blkio pids)
[[ -d $root/memory ]] || controllers=('')
folder=$(mktemp -d)
pids=()

clean() {
    local controller directory
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    for controller in "${controllers[@]}"; do
        for directory in "$root/$controller/$group"/*/; do rmdir "$directory" 2>/dev/null || true; done
        rmdir "$root/$controller/$group" 2>/dev/null || true
    done
    rm -rf "$folder"
}
trap clean EXIT

[[ $EUID -eq 0 ]] || { echo "bench_monitor.sh: needs root to make control groups" >&2; exit 77; }
chmod 755 "$folder"
for ((i = 0; i < containers; i++)); do
    id=$(printf '%s' "$group-$i" | sha256sum | cut -c1-64)
    sleep 100000 &
    pids+=($!)
    for controller in "${controllers[@]}"; do
        mkdir -p "$root/$controller/$group/$id"
        echo $! >"$root/$controller/$group/$id/cgroup.procs"
    done
done

ticks() { awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$1/stat"; }

"$monitor" record --source cgroups --interval 1s "$folder/file" 2>"$folder/log" &
recorder=$!
pids+=("$recorder")
read -r -t 3 <> <(:) || true # the first passes open everything
before=$(ticks "$recorder") start=$(date +%s.%N)
read -r -t "$seconds" <> <(:) || true
after=$(ticks "$recorder") end=$(date +%s.%N)
anonymous=$(awk '/^RssAnon/ { print $2 }' "/proc/$recorder/status")
descriptors=$(find "/proc/$recorder/fd" -mindepth 1 | wc -l)
kill "$recorder"
wait "$recorder" || true
bytes=$(stat -c %s "$folder/file")

"$monitor" serve --source cgroups --web.listen-address "127.0.0.1:$port" 2>"$folder/log" &
server=$!
pids+=("$server")
until address=$(grep -om1 '127.0.0.1:[0-9]*' "$folder/log"); do kill -0 "$server"; done
until curl -sfo "$folder/page" "http://$address/metrics"; do kill -0 "$server"; done
samples=$(grep -vc '^#' "$folder/page")
for ((i = 0; i < 50; i++)); do
    curl -so /dev/null -H 'Accept-Encoding: gzip' -w '%{time_starttransfer}\n' "http://$address/metrics"
done | sort -n >"$folder/times"

awk -v b="$before" -v a="$after" -v s="$start" -v e="$end" -v hz="$(getconf CLK_TCK)" -v n="$containers" \
    -v anonymous="$anonymous" -v fds="$descriptors" -v bytes="$bytes" -v samples="$samples" \
    -v page="$(stat -c %s "$folder/page")" -v median="$(sed -n 25p "$folder/times")" -v json="$json" '
    BEGIN {
        t = e - s
        printf "%d containers, once a second for %.0f s: %.2f %% of a core, %.1f MB of anonymous memory, %d descriptors\n",
            n, t, 100 * (a - b) / hz / t, anonymous / 1024, fds
        printf "recording: %.0f bytes a container and sample\n", bytes / n / (t + 3)
        printf "a scrape: %.1f ms to the first byte (median of 50, gzip), %d series, %.0f kB before gzip\n",
            1000 * median, samples, page / 1000
        printf "{\"containers\":%d,\"core_percent\":%.2f,\"anonymous_mb\":%.1f,\"scrape_ms\":%.1f}\n",
            n, 100 * (a - b) / hz / t, anonymous / 1024, 1000 * median >json
    }'
[[ -n $with_lab ]] || exit 0
clean # the sleepers first
trap - EXIT
[[ $json == /dev/null ]] || json=${json%.json}-engine.json
exec "$(dirname "$0")/bench_monitor_engine.sh" "$monitor" --containers "$containers" --json "$json"
