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
usage: test.sh [--long | --tsan] [--no-lab] [REGEX]

  --long     the same tests with large counts: fuzzing, kills, soak (hours)
  --tsan     only what has threads, built with ThreadSanitizer
  --no-lab   leave out what needs engines
  REGEX      only tests whose name matches, as ctest -R takes it
USAGE
}

main() {
    local lab=1 tsan='' select=()
    while (($#)); do
        case $1 in
        --help | -h)
            usage
            exit 0
            ;;
        --long) export MUSTER_TEST_LONG=1 ;;
        --tsan) tsan=1 ;;
        --no-lab) lab='' ;;
        -*) usage_error "unknown option '$1'" ;;
        *) select=(-R "$1") ;;
        esac
        shift
    done
    root=$(repo_root)
    small_model=$root/tests/agent/small-cnn.json
    cd "$root"

    need_build_packages "${TEST_PACKAGES[@]}"
    if [[ -n $tsan ]]; then
        tests_with_threads
        return
    fi
    say "building with ASan and UBSan"
    build asan -DMUSTER_WERROR=ON
    # The other tests are there for ctest to know, and run on the build above.
    say "building the release's programs"
    remember_objects
    build release --target muster --target muster-agent --target muster-launch --target muster-monitor \
        --target lab_between_readings -DMUSTER_WERROR=ON -DMUSTER_TESTS=ON

    local status=0 any=''
    if has_tests asan -LE lab; then
        any=1
        say "tests on the sanitized build"
        # Each test has its own namespaces, ports and folders. Four jobs for two cores: most of them wait, and those that
        # compute count for two (PROCESSORS). Agents train a small model here, and the whole one on the lab.
        MUSTER_TEST_MODEL=$small_model ctest --preset asan -LE lab -j 4 --no-tests=error "${select[@]}" || status=$?
    fi
    if [[ -n $lab ]] && has_tests release -L lab; then
        any=1
        shared_lab
        say "tests on real engines"
        # The second job is for what has a lab of its own (tests/lab/CMakeLists.txt); the others wait for their turn.
        ctest --preset release -L lab -j 2 --no-tests=error "${select[@]}" || status=$?
    fi
    [[ -n $any ]] || die 2 "no test's name matches '${select[1]:-}'"
    exit "$status"
}

# has_tests PRESET SELECTION...: whether REGEX matches anything there; without one there must be something. Run by main,
# whose `select` it reads.
has_tests() {
    ((${#select[@]} == 0)) || ! ctest --preset "$1" -N "${@:2}" "${select[@]}" | grep '^Total Tests: 0$' >/dev/null
}

# Run by main, whose `select` it reads: what has threads. Loops take 100 times as long, so that agents train a model of an
# eighth of the size; no test is about how long.
tests_with_threads() {
    say "building with TSan"
    build tsan -DMUSTER_WERROR=ON
    # OpenBLAS is not built so, and hands over its threads' work in ways that TSan cannot see.
    TSAN_OPTIONS="ignore_noninstrumented_modules=1 ${TSAN_OPTIONS:-}" MUSTER_TEST_PATIENCE=4 \
        MUSTER_TEST_MODEL="$small_model" \
        ctest --preset tsan -LE lab -E membership_model --no-tests=error \
        -R "${select[1]:-^(agent|exec|discovery|trainer)\.}"
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

# quickstart's test builds a copy of what is built here first, and finds the objects again. CMake asks for the launcher
# when a folder is new; whether a warning is an error changes no object.
remember_objects() {
    command -v ccache >/dev/null || return 0
    export CMAKE_C_COMPILER_LAUNCHER=ccache CCACHE_DIR=$root/build/ccache CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
    export CCACHE_IGNOREOPTIONS=-Werror
}

main "$@"
