#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Containers that come and go: the exporter, which is scraped and looked at meanwhile, and the recorder keep no
# descriptors of what has gone, and no memory but for the page's, which shows it for some more minutes. 60 containers;
# MUSTER_TEST_STARTS says how many, and with MUSTER_TEST_LONG they are 10,000.
# shellcheck disable=SC2016 # what at_end and sh get is expanded there
# shellcheck source=tests/lab/lib.sh
source "$(dirname "$0")/lib.sh"
# shellcheck source=tests/lab/monitor.sh
source "$(dirname "$0")/monitor.sh"

starts=${MUSTER_TEST_STARTS:-60}
[[ -z ${MUSTER_TEST_LONG:-} ]] || starts=10000
warm_up=20

lab_test
# shellcheck disable=SC2119
lab_use
host=unix://$(node_socket node1)
tag=muster-test-churn
tiny_image "$(node_socket node1)" "$tag"
docker() { "$MUSTER_DOCKER" -H "$host" "$@"; }
at_end 'mapfile -t left < <(docker ps -aq --filter label="$tag")
    ((${#left[@]} == 0)) || docker rm -f "${left[@]}" >/dev/null'

declare -A pids=() fds=() kb=()
begin() { # NAME COMMAND...
    "${@:2}" 2>"$test_folder/$1.log" &
    pids[$1]=$!
    at_end "kill ${pids[$1]} 2>/dev/null"
}

# One life of each: 4 at a time.
live() {
    seq "$1" "$2" | xargs -P 4 -I {} sh -c '
        "$0" -H "$1" run -d --label "$2" --name "$2-{}" "$2" sleep 1000 >/dev/null &&
            "$0" -H "$1" rm -f "$2-{}" >/dev/null' "$MUSTER_DOCKER" "$host" "$tag" || fail "a container did not run"
}
descriptors() { find "/proc/${pids[$1]}/fd" -lname '*cgroup*' -o -lname '/proc/*' | wc -l; }
anonymous_kb() { awk '/^RssAnon/ { print $2 }' "/proc/${pids[$1]}/status"; }
page() { curl -sf "http://$address/$1"; }
containers() { page 'metrics?name[]=muster_containers' | sed -n 's/^muster_containers //p'; }
shows() { [[ $(containers) == "$1" ]]; }

step "an exporter that is scraped and looked at, and a recorder"
begin serve "$monitor" serve -H "$host" --web.listen-address 127.0.0.1:0 --interval 500ms
begin record "$monitor" record -H "$host" --interval 500ms "$test_folder/file"
has_address() { grep -q 'listening on 127' "$test_folder/serve.log"; }
wait_until 10 "an address" has_address
address=$(grep -om1 '127.0.0.1:[0-9]*' "$test_folder/serve.log")
curl_answers() { page metrics >"$test_folder/page"; }
wait_until 10 "a page" curl_answers
before=$(containers)
begin look bash -c "while :; do
    curl -s http://$address/metrics http://$address/api/v1/history >/dev/null
    read -rt 0.5 <> <(:)
done"

step "$warm_up lives to get warm, then $starts more"
live 1 "$warm_up"
wait_until 10 "the last to be forgotten" shows "$before"
for name in serve record; do
    fds[$name]=$(descriptors $name) kb[$name]=$(anonymous_kb $name)
done
start=$(now_ms)
live "$((warm_up + 1))" "$((warm_up + starts))"
took_ms=$(($(now_ms) - start))
wait_until 10 "the last to be forgotten" shows "$before"
same_descriptors() { [[ $(descriptors serve) == "${fds[serve]}" && $(descriptors record) == "${fds[record]}" ]]; }
wait_until 10 "descriptors as before: ${fds[serve]} and ${fds[record]}" same_descriptors

shown=$((starts < 2048 ? starts : 2048))
said="serve ${kb[serve]} to $(anonymous_kb serve) kB, record ${kb[record]} to $(anonymous_kb record) kB"
say "$starts starts in $took_ms ms: $said"
(($(anonymous_kb record) - kb[record] <= 512)) || fail "the recorder has grown: $said"
(($(anonymous_kb serve) - kb[serve] <= 512 + shown * 3 / 2)) || fail "the exporter has grown: $said"
said=$(grep -v 'root is not given up\|listening on' "$test_folder"/{serve,record}.log || true)
expect_equal "$said" '' "what they had to say"
