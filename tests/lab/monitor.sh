# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# What tests of the monitor on real engines need beside lib.sh.

# shellcheck disable=SC2034 # for the tests
monitor=${MUSTER_BUILD:-$source_root/build/release}/monitoring/muster-monitor

# small_image SOCKET TAG PROGRAM...: this machine's programs with their libraries as an image.
# shellcheck disable=SC2154 # of lib.sh
small_image() {
    local socket=$1 tag=$2 stage program
    shift 2
    stage=$(mktemp -d "$test_folder/stage.XXXXXX")
    for program in "$@"; do
        program=$(type -P "$program") || fail "no '$1' on this machine"
        { echo "$program"; ldd "$program" 2>/dev/null | grep -o '/[^ ]*' || true; } |
            tar -C / -chf - -T - 2>/dev/null | tar -C "$stage" -xf -
    done
    tar -C "$stage" -cf - . | "$MUSTER_DOCKER" -H "unix://$socket" import - "$tag" >/dev/null
}
