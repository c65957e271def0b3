# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Experiments without engines and without networks: muster compare with a launcher and an agent that are scripts.
set -euo pipefail

: "${MUSTER:?path of the muster to test}"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/lib.sh
source "$here/../../scripts/lib.sh"
work=$(mktemp -d "${TMPDIR:-/tmp}/muster-compare-test.XXXXXX")
# shellcheck disable=SC2034 # for the tests
control=$work/control
mkdir -p "$control" "$work/hosts" "$work/data"
running=''

fail() {
    echo "FAILED: $*" >&2
    tail -n 20 "$work/out" >&2 || true
    exit 1
}

clean_up() {
    local status=$?
    [[ -z $running ]] || kill -KILL "$running" 2>/dev/null || true
    rm -rf "$work"
    exit "$status"
}
trap clean_up EXIT

if [[ $(id -u) -ne 0 ]] || ! grep -q ' cgroup' /proc/mounts; then
    [[ -z ${CI:-} ]] || { echo "needs root and control groups" >&2; exit 1; }
    echo "skipped: needs root and control groups"
    exit 77
fi

out=(--out "$work/experiment")
modes=bare,bare repeats=1 warmups=0 launcher="$here/fake_launcher.sh $control {host} {cmd}"
echo "1,2" >"$work/data/train.csv"
echo "{}" >"$work/model.json"
# shellcheck disable=SC2120 # the tests give it
# stack [CPUS]: two workers on two hosts; the second one's limit is CPUS
stack() {
    local number
    echo "services:"
    for number in 1 2; do
        cat <<YAML
  w$number:
    image: none
    command: [muster-agent, train]
    configs: [{source: model, target: /model.json}]
    environment:
      MUSTER_MODEL: /model.json
      MUSTER_SLOT: "{{.Service.Name}}"
      MUSTER_SLOT_NUMBER: "$number"
      MUSTER_OUT: /runs
      FAKE_CONTROL: $control
    deploy:
      labels: {muster.role: worker}
      placement: {constraints: [node.hostname == host$number]}
      resources: {limits: {cpus: "$([[ $number == 1 ]] && echo 0.5 || echo "${1:-0.5}")", memory: 64M}}
YAML
    done
    echo "configs: {model: {file: $work/model.json}}"
}
# shellcheck disable=SC2119
stack >"$work/pair.yml"

# shellcheck disable=SC2120
# compare OPTIONS...: bare against bare, in the background; its pid in $running
begin_compare() {
    : >"$work/out"
    setsid env --default-signal=INT,QUIT "$MUSTER" compare -c "$work/pair.yml" --modes "$modes" --repeats "$repeats" \
        --warmups "$warmups" --launcher "$launcher" --host-muster "$MUSTER" \
        --host-agent "$here/fake_agent.sh" --host-folder "$work/hosts" --subnet 127.0.0.0/8 --data "$work/data" \
        "${out[@]}" "$@" >"$work/out" 2>&1 </dev/null &
    running=$!
}

# finish STATUS [TEXT...]: at most 60 s for its end
finish() {
    local wanted=$1 status=0 text
    shift
    wait_until 60 "muster compare to end" ended || fail "still runs"
    wait "$running" || status=$?
    running=''
    [[ $status -eq $wanted ]] || fail "status $status instead of $wanted"
    for text in "$@"; do
        grep -qE -- "$text" "$work/out" || fail "does not say '$text'"
    done
}

ended() { ! kill -0 "$running" 2>/dev/null; }

expect() { [[ $1 == "$2" ]] || fail "${3:-value}: '$1' instead of '$2'"; }

# asked EXPRESSION: of experiment.json, e
asked() {
    python3 -c 'import json, sys; e = json.load(open(sys.argv[1])); print(eval(sys.argv[2], {"e": e}))' \
        "$work/experiment/experiment.json" "$1"
}

groups_left() {
    find /sys/fs/cgroup -maxdepth 3 -type d -path "*/muster-compare-$(asked 'e["id"]')*" 2>/dev/null | wc -l
}

expect_nothing_left() {
    expect "$(ls "$work/hosts")" "" "left on the hosts"
    expect "$(groups_left)" "0" "control groups left"
}
