#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench_deploy.sh MUSTER [--rounds N] [--plans N] [--json FILE]
#
# From nothing to three running services, on a lab: `muster deploy` beside `docker stack deploy` and looks at `docker
# service ls` until each has its replica. They take turns (A B B A ...), each with its own defaults, the image comes from
# the lab's registry and lies on the nodes already; the stack is removed in between, which is not timed. Two times are
# taken: when the command says so, and when the last task ran by the manager's own clock. `muster deploy --settle 0s`
# is what docker's way does; by default muster looks on for one more second. Then `muster plan` of the stack as it lives,
# and which calls it makes, by a recorder between muster and the engine. Needs root, an engine, jq and python3.
# shellcheck source=tests/lab/stack.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lab/stack.sh"

muster=$(readlink -e "${1:?path of muster}")
shift
rounds=8 plans=30 json=/dev/null
readonly PLAN_LIMIT_MS=50
while (($#)); do
    case $1 in
    --rounds) rounds=${2-} ;;
    --plans) plans=${2-} ;;
    --json) json=${2-} ;;
    *) usage_error "bench_deploy.sh: unknown option '$1'" ;;
    esac
    shift 2 || usage_error "bench_deploy.sh: an option lacks its value"
done
[[ $rounds =~ ^[1-9][0-9]{0,2}$ && $plans =~ ^[1-9][0-9]{0,3}$ ]] ||
    usage_error "bench_deploy.sh: --rounds and --plans: expected 1 to 999"
type -P jq >/dev/null || die 1 "needs jq (apt-get install jq)"

lab_test
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lab_own_folder
run 120 "$lab" up
expect_status 0
eval "$("$lab" env)"
docker_program=$MUSTER_DOCKER
export DOCKER_CONFIG=$test_folder/docker-config
mkdir -p "$DOCKER_CONFIG"
image=$MUSTER_LAB_REGISTRY/bench:1
tiny_image "$(node_socket node1)" "$image"
docker push -q "$image" >/dev/null
for node in $MUSTER_LAB_NODES; do docker_at "$node" pull -q "$image" >/dev/null; done
cd "$test_folder"
echo layers >model
echo words >key
cat >stack.yml <<YML
version: "3.8"
x-worker: &worker
  image: $image
  command: [sleep, "1000"]
  stop_signal: SIGKILL
  networks: [inner]
  configs: [model]
  secrets: [key]
services:
  w1: {<<: *worker, deploy: {placement: {constraints: [node.hostname == node1]}}}
  w2: {<<: *worker, deploy: {placement: {constraints: [node.hostname == node2]}}}
  w3: {<<: *worker, deploy: {placement: {constraints: [node.hostname == node3]}}}
networks: {inner: {ipam: {config: [{subnet: 10.71.0.0/24}]}}}
configs: {model: {file: ./model}}
secrets: {key: {file: ./key}}
YML
detach=()
if docker stack deploy --help | grep -q -- --detach; then detach=(--detach=true); fi

now_us() { printf '%s\n' "${EPOCHREALTIME/[.,]/}"; }

by_docker() {
    docker stack deploy "${detach[@]}" -c stack.yml bench >/dev/null 2>&1
    until [[ $(docker service ls --filter label=com.docker.stack.namespace=bench --format '{{.Replicas}}') == $'1/1\n1/1\n1/1' ]]; do
        (($(now_us) < deadline)) || fail "docker's services do not run"
    done
}
by_muster() { "$muster" deploy --settle 0s -c stack.yml bench >/dev/null 2>&1; }
by_watching() { "$muster" deploy -c stack.yml bench >/dev/null 2>&1; }

# When the last of the tasks came to run, in microseconds since 1970.
last_running() {
    local stamp newest=0 each
    for stamp in $(docker stack ps -q --no-trunc bench | xargs "$docker_program" inspect --format '{{json .Status.Timestamp}}' | tr -d '"'); do
        each=$(date -d "$stamp" +%s%6N)
        ((each < newest)) || newest=$each
    done
    echo "$newest"
}

# one NAME ROUND: a line of JSON
one() {
    local start end running deadline
    start=$(now_us) deadline=$(($(now_us) + 60000000))
    "by_$1" || fail "$1: exit code $?"
    end=$(now_us)
    running=$(last_running)
    "$muster" rm bench >/dev/null 2>&1 || fail "the stack could not be removed"
    ((${2} == 0)) || printf '{"bench":"deploy","way":"%s","round":%d,"ms":%d,"running_ms":%d}\n' \
        "$1" "$2" $(((end - start) / 1000)) $(((running - start) / 1000))
}

printf 'client %s, engine %s, %d rounds\n' "$(docker version --format '{{.Client.Version}}')" \
    "$(docker version --format '{{.Server.Version}}')" "$rounds"
one docker 0
one muster 0
for ((round = 1; round <= rounds; round++)); do
    ways=(docker muster watching)
    ((round % 2)) || ways=(watching muster docker)
    for way in "${ways[@]}"; do one "$way" "$round"; done
done >"$test_folder/rounds"
cat "$test_folder/rounds" >>"$json"
printf 'three services from nothing: median (least - most)          told, ms             running, ms\n'
for way in docker muster watching; do
    case $way in
    docker) name="docker stack deploy, and service ls until 1/1" ;;
    muster) name="muster deploy --settle 0s" ;;
    watching) name="muster deploy (looks on for 1 s)" ;;
    esac
    jq -s -r --arg way $way --arg name "$name" 'def middle: sort | (.[((length - 1) / 2 | floor)] + .[(length / 2 | floor)]) / 2;
        [.[] | select(.way == $way)] | [$name, (map(.ms) | middle, min, max), (map(.running_ms) | middle, min, max)] | @tsv' \
        "$test_folder/rounds" | awk -F '\t' '{ printf "%-48s %8.0f (%d - %d) %12.0f (%d - %d)\n", $1, $2, $3, $4, $5, $6, $7 }'
done
jq -s -r 'def middle: sort | (.[((length - 1) / 2 | floor)] + .[(length / 2 | floor)]) / 2;
    [group_by(.round)[] | [(.[] | select(.way == "muster")), (.[] | select(.way == "docker"))] |
        {told: (.[0].ms - .[1].ms), running: (.[0].running_ms - .[1].running_ms)}] |
    "muster less docker, round by round: told \(map(.told) | middle) ms (no later in \(map(select(.told <= 0)) | length) of \(length)), "
    + "running \(map(.running) | middle) ms (no later in \(map(select(.running <= 0)) | length) of \(length))"' "$test_folder/rounds"

# --- plan ---
run 60 "$muster" deploy -c stack.yml bench
expect_status 0
# plan_times OPTION...: milliseconds of each, sorted
plan_times() {
    local i start status
    for ((i = 0; i < plans; i++)); do
        start=$(now_us) status=0
        "$muster" plan "$@" -c stack.yml bench >"$test_folder/plan" 2>&1 || status=$?
        printf '%s\n' $(($(now_us) - start))
        ((status == 0)) || fail "plan says that there is something to do: $(cat "$test_folder/plan")"
    done | sort -n
}
for resolve in always never; do
    plan_times --resolve-image $resolve >"$test_folder/times"
    awk -v how="$resolve" -v limit=$PLAN_LIMIT_MS -v json="$json" '{ t[NR] = $1 / 1000 }
        END {
            median = (t[int((NR + 1) / 2)] + t[int(NR / 2) + 1]) / 2
            printf "plan of the unchanged stack, --resolve-image %s: %.1f ms (%.1f - %.1f, %d times), wanted: under %d\n",
                how, median, t[1], t[NR], NR, limit
            printf "{\"bench\":\"plan\",\"resolve\":\"%s\",\"median_ms\":%.1f,\"max_ms\":%.1f}\n", how, median, t[NR] >>json
        }' "$test_folder/times"
done
python3 "$here/record_calls.py" "${DOCKER_HOST#unix://}" "$test_folder/recorder.sock" "$test_folder/calls" &
at_end "kill $! 2>/dev/null"
recording() { [[ -S $test_folder/recorder.sock ]]; }
wait_until 10 "the recorder to listen" recording
run 20 "$muster" plan -H "unix://$test_folder/recorder.sock" -c stack.yml bench
expect_status 0
printf 'calls of plan: %s\n' "$(cut -d' ' -f1 "$test_folder/calls" | sort | uniq -c | awk '{ printf "%s%d %s", (NR > 1 ? ", " : ""), $1, $2 }')"
if grep -vqE '^(GET|HEAD) ' "$test_folder/calls"; then fail "plan writes: $(grep -vE '^(GET|HEAD) ' "$test_folder/calls")"; fi
grep -q '^GET ' "$test_folder/calls" || fail "the recorder saw no call"
