# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# What a lab test needs. A test sources this file and then says
#
#     lab_test                 # ends the test where engines cannot be run
#     lab_use                  # the shared lab that MUSTER_LAB_DIR names, if it is up, else one of its own
#     step "what comes next"
#     run 30 docker service ls # at most 30 s; fills $output (stdout and stderr) and $status
#     expect_status 0
#     expect_line '^node1 .* Ready'
#     wait_until 10 "three tasks to run" tasks_run 3
#     at_end 'command'         # run when the test ends, last one first
#
# and ends with exit code 0 unless something failed. Nothing waits by a fixed time.
set -euo pipefail

MUSTER_PROGRAM=$(basename "$0" .sh)
source_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=scripts/lib.sh
source "$source_root/scripts/lib.sh"
# shellcheck disable=SC2034 # for the tests
lab=$source_root/scripts/lab.sh

output='' status=0
test_folder=''
at_end_commands=()

at_end() { at_end_commands+=("$1"); }

test_end() {
    local code=$? i
    trap - EXIT
    set +e
    for ((i = ${#at_end_commands[@]} - 1; i >= 0; i--)); do
        eval "${at_end_commands[i]}"
    done
    [[ -z $test_folder ]] || rm -rf "$test_folder"
    if ((code == 0)); then say "passed"; elif ((code != 77)); then say "failed (exit $code)"; fi
    exit "$code"
}

# Ends with 77 (ctest: skipped) without the rights to run engines; under CI that is a failure.
lab_test() {
    trap test_end EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    test_folder=$(mktemp -d /tmp/muster-test.XXXXXX)
    if [[ $(id -u) -ne 0 ]] || ! unshare --net --uts --mount true 2>/dev/null; then
        say "needs root and the right to make namespaces"
        [[ -z ${CI:-} ]] || exit 1
        exit 77
    fi
}

step() { say "- $*"; }

fail() {
    say "FAILED: $*"
    if [[ -n $output ]]; then printf '%s\n' "$output" | tail -n 40 | sed 's/^/    | /' >&2; fi
    exit 1
}

run() {
    local seconds=$1 start
    shift
    status=0
    start=$(now_ms)
    # Not a pipe: a daemon that kept it open would hold the test.
    timeout --kill-after=5 "$seconds" "$@" >"$test_folder/output" 2>&1 </dev/null || status=$?
    output=$(<"$test_folder/output")
    # 124 may also be the command's own code.
    ((status != 124 || $(now_ms) - start < seconds * 1000)) || fail "not done in $seconds s: $*"
}

expect_status() { ((status == $1)) || fail "exit code $status instead of $1"; }
expect_line() { grep -qE -- "$1" <<<"$output" || fail "no line like '$1'"; }
expect_no_line() { if grep -qE -- "$1" <<<"$output"; then fail "a line like '$1'"; fi; }
expect_equal() { [[ $1 == "$2" ]] || fail "${3:-value}: '$1' instead of '$2'"; }

# A lab of the test's own, taken down when the test ends. Short, because sockets' paths are.
lab_own_folder() {
    export MUSTER_LAB_DIR=$test_folder/lab
    unset MUSTER_IMAGE DOCKER_HOST
    at_end "MUSTER_LAB_DIR=$(printf %q "$MUSTER_LAB_DIR") $(printf %q "$lab") down >/dev/null 2>&1"
}

lab_use() {
    if [[ -n ${MUSTER_LAB_DIR:-} ]] && "$lab" status >/dev/null 2>&1; then
        say "uses the lab in $MUSTER_LAB_DIR"
    else
        lab_own_folder
        run 120 "$lab" up "$@"
        expect_status 0
    fi
    eval "$("$lab" env)"
}

# muster's image in all nodes, as MUSTER_IMAGE; built from MUSTER_BUILD (build/release) if the lab has none yet.
lab_use_image() {
    if [[ -z ${MUSTER_IMAGE:-} ]]; then
        local archive=$test_folder/image.tar
        run 120 "$source_root/scripts/build_image.sh" --build "${MUSTER_BUILD:-$source_root/build/release}" -o "$archive"
        expect_status 0
        run 120 "$lab" load "$archive"
        expect_status 0
        eval "$("$lab" env)"
    fi
}

# tiny_image SOCKET TAG: this machine's `sleep` and its libraries as an image, for tests of the lab itself.
tiny_image() {
    local socket=$1 tag=$2 program stage=$test_folder/tiny
    program=$(type -P sleep)
    if [[ ! -d $stage ]]; then
        mkdir -p "$stage"
        { echo "$program"; ldd "$program" | grep -o '/[^ ]*'; } | tar -C / -chf - -T - 2>/dev/null | tar -C "$stage" -xf -
    fi
    tar -C "$stage" -cf - . | "${MUSTER_DOCKER:-docker}" -H "unix://$socket" import - "$tag" >/dev/null
}

node_socket() { echo "$MUSTER_LAB_DIR/nodes/$1/docker.sock"; }
