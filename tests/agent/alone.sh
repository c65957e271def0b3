# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Whole trainings of one worker without any network, as whoever runs the test. Source it; "$work" goes away at the end.
set -euo pipefail

: "${MUSTER_AGENT:?path of the muster-agent to test}"
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/muster-alone-test.XXXXXX")
trap 'rm -rf "$work"' EXIT
# Trainings of other tests run beside this one: with a port of its own none of them answers this one's health checks.
export MUSTER_STANDALONE=1 MUSTER_USER=none MUSTER_THREADS=1 MUSTER_PORT=$((10000 + $$ % 50000))

fail() {
    echo "FAILED: $*" >&2
    for log in "$work"/*.err; do
        [ -s "$log" ] && { echo "--- $log"; tail -n 20 "$log"; } >&2
    done
    exit 1
}

# train NAME ARGS...: events in $work/NAME.events, results in $work/NAME
train() {
    local name=$1
    shift
    "$MUSTER_AGENT" train --slot "$name" --out "$work/$name" "$@" >"$work/$name.events" 2>"$work/$name.err" ||
        fail "train $name: exit status $?"
}

# field NAME EVENT KEY: of the last such event
field() { jq -r --arg e "$2" 'select(.event == $e) | .'"$3" "$work/$1.events" | tail -n 1; }

# holds A OPERATOR B: a comparison of numbers
holds() { awk "BEGIN { exit !($1 $2 $3) }" || fail "$1 is not $2 $3 ($4)"; }

# refused TEXT ARGS...: exit status 2, and one line with that text
refused() {
    local text=$1 status=0
    shift
    "$MUSTER_AGENT" "$@" >"$work/refused.out" 2>"$work/refused.err" || status=$?
    [ "$status" -eq 2 ] || fail "exit $status, not 2: $*"
    [ "$(wc -l <"$work/refused.err")" -eq 1 ] || fail "not exactly one line: $*"
    grep -qF -- "$text" "$work/refused.err" || fail "'$text' is not in: $(cat "$work/refused.err")"
}
