#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what is needed, builds twice (debug with ASan and UBSan; release) and runs every test: unit, faults and
# namespaces on the first build, everything on real engines on the second. Ends with ctest's summary.
set -euo pipefail

MUSTER_PROGRAM="test"
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=scripts/build.sh
source "$(dirname "${BASH_SOURCE[0]}")/build.sh"

usage() {
    cat <<USAGE
usage: test.sh [--long] [--no-lab] [REGEX]

  --long     the same tests with large counts: fuzzing, kills, soak (hours)
  --no-lab   leave out what needs engines
  REGEX      only tests whose name matches, as ctest -R takes it
USAGE
}

main() {
    local lab=1 select=()
    while (($#)); do
        case $1 in
        --help | -h)
            usage
            exit 0
            ;;
        --long) export MUSTER_TEST_LONG=1 ;;
        --no-lab) lab='' ;;
        -*) usage_error "unknown option '$1'" ;;
        *) select=(-R "$1") ;;
        esac
        shift
    done
    root=$(repo_root)
    cd "$root"

    need_build_packages "${TEST_PACKAGES[@]}"
    say "building with ASan and UBSan"
    build asan -DMUSTER_WERROR=ON
    say "building the release"
    build release -DMUSTER_WERROR=ON -DMUSTER_TESTS=ON

    local status=0
    say "tests on the sanitized build"
    # Two jobs for two cores; namespaces and faults keep out of each other's way by RESOURCE_LOCK.
    ctest --preset asan -LE lab -j 2 --no-tests=error "${select[@]}" || status=$?
    if [[ -n $lab ]]; then
        shared_lab
        say "tests on real engines"
        ctest --preset release -L lab --no-tests=error "${select[@]}" || status=$?
    fi
    exit "$status"
}

# One lab for all tests that do not need one of their own; it is taken down whatever happens.
shared_lab() {
    local archive=build/release/muster-image.tar
    export MUSTER_LAB_DIR=${MUSTER_LAB_DIR:-/var/lib/muster-lab-test}
    trap '"$root/scripts/lab.sh" down' EXIT
    say "building the image, bringing up the lab"
    scripts/build_image.sh -o "$archive" >/dev/null
    scripts/lab.sh up
    scripts/lab.sh load "$archive" >/dev/null
}

main "$@"
