#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Counters against a real engine: containers under load, with a network and without, and every row of the monitor
# must lie between two readings of the Engine. Then a life: restart and kill, and what the monitor makes of it.
# shellcheck disable=SC2016,SC2119 # what at_end gets is expanded when the test ends
set -euo pipefail
# shellcheck source=tests/lab/lib.sh
source "$(dirname "$0")/../lab/lib.sh"

monitor=$1 between=$2

lab_test
lab_use
host=$(node_socket node1)
tag=muster-test-monitor-$$
docker() { "$MUSTER_DOCKER" -H "unix://$host" "$@"; }
client=("$MUSTER_DOCKER" -H "unix://$host")
at_end 'mapfile -t left < <(docker ps -aq --filter label='"$tag"'); ((${#left[@]} == 0)) || docker rm -f "${left[@]}" >/dev/null; docker rmi -f '"$tag"' >/dev/null 2>&1'

# dd and sleep with their libraries.
mkdir "$test_folder/stage"
{ type -P dd sleep; ldd "$(type -P dd)" "$(type -P sleep)" | grep -o '/[^ ]*' | tr -d :; } | sort -u |
    tar -C / -chf - -T - 2>/dev/null | tar -C "$test_folder/stage" -xf -
tar -C "$test_folder/stage" -cf - . | docker import - "$tag" >/dev/null

begin() { # NAME OPTION... -- CMD...
    local name=$1 options=()
    shift
    while [[ $1 != -- ]]; do options+=("$1"); shift; done
    shift
    run 30 "${client[@]}" run -d --label "$tag" --name "$tag-$name" "${options[@]}" "$tag" "$@"
    expect_status 0
}

step "rows lie between two readings of the Engine, under load"
begin busy --cpus 0.3 -m 64m -- dd if=/dev/zero of=/dev/null bs=64k
begin idle -- sleep 1000
begin alone --network none -- sleep 1000
begin host --network host -- sleep 1000
address=$(docker inspect -f '{{.NetworkSettings.IPAddress}}' "$tag-busy")
[[ $address == *.*.*.* ]] || fail "no address for the busy container"
# Traffic: datagrams from the node into the container, until the comparison is done.
"$lab" exec node1 bash -c "trap 'exit 0' TERM; while :; do echo hello 2>/dev/null >/dev/udp/$address/9; read -rt 0.01 <> <(:); done" &
traffic=$!
at_end '[[ -z $traffic ]] || kill "$traffic"'
run 60 "$between" "unix://$host"
printf '%s\n' "$output" >&2
expect_status 0
kill "$traffic"
wait "$traffic" || true
traffic=''

step "a restart leaves cpu_percent empty once, and a kill ends the rows"
touch "$test_folder/stats.csv"
"$monitor" csv -H "unix://$host" --interval 100ms "$test_folder/stats.csv" 2>"$test_folder/log" &
recorder=$!
at_end '[[ -z $recorder ]] || kill "$recorder"'
has_rows() { (($(grep -cs ",$tag-$1," "$test_folder/stats.csv") >= $2)); }
empty_percents() { awk -F, -v name="$tag-busy" '$7 == name && $8 == ""' "$test_folder/stats.csv" | wc -l; }
wait_until 10 "rows of the busy container" has_rows busy 3
expect_equal "$(empty_percents)" 1 "rows without cpu_percent"
run 30 "${client[@]}" restart -t 0 "$tag-busy"
expect_status 0
restarted() { (($(empty_percents) == 2)); }
wait_until 10 "the counters to begin anew" restarted
awk -F, -v name="$tag-busy" '$7 == name && $8 > 150 { exit 1 }' "$test_folder/stats.csv" || fail "a spike in cpu_percent"
run 30 "${client[@]}" kill "$tag-busy"
expect_status 0
# The next tick of another container without one of this: it has gone.
gone() { ! tail -n 3 "$test_folder/stats.csv" | grep -q ",$tag-busy,"; }
wait_until 10 "the killed container to go" gone
expect_equal "$(find "/proc/$recorder/fd" -lname "*$(docker inspect -f '{{.Id}}' "$tag-busy")*" | wc -l)" 0 "open files of a dead container"

step "it ends cleanly when it is told to, with whole rows"
kill -INT "$recorder"
status=0
wait "$recorder" || status=$?
recorder=''
expect_equal "$status" 0 "exit code"
awk -F, 'NF != 15 { exit 1 }' "$test_folder/stats.csv" || fail "a row that is not whole"
expect_equal "$(grep -c '^time,node,' "$test_folder/stats.csv")" 1 "headers"
# The lab may lie in a folder of root's: then root is kept, and said so.
sed -i '/root is not given up/d' "$test_folder/log"
[[ ! -s $test_folder/log ]] || { output=$(<"$test_folder/log"); fail "it had something to say"; }
