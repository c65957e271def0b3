# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Building, for the scripts that need a build: source after lib.sh.

# What the programs are built with and link; cmake/MusterDependencies.cmake names the same libraries.
# shellcheck disable=SC2034 # for those who source this
BUILD_PACKAGES=(gcc cmake ninja-build pkg-config libc6-dev libcurl4-openssl-dev libcjson-dev libxml2-dev
    libopenblas-dev libpcap-dev libyaml-dev libssl-dev libarchive-dev libc-ares-dev zlib1g-dev libpng-dev libjpeg-dev
    libmicrohttpd-dev libgnutls28-dev libcrypt-dev)
# What the tests need beside that.
# shellcheck disable=SC2034
TEST_PACKAGES=(libcmocka-dev iproute2 iptables jq curl python3 python3-numpy python3-torch openmpi-bin libopenmpi-dev
    busybox-static nmap-common prometheus chromium libjs-chart.js ccache)

# Where apt-get is not at hand, what counts is whether the build finds what it needs: cmake says what is missing.
need_build_packages() {
    if command -v dpkg-query >/dev/null; then
        need_packages "${BUILD_PACKAGES[@]}" "$@"
    fi
}

# build PRESET [--target TARGET]... [CMAKE OPTIONS...]: configures once, then builds what has changed; quiet unless it
# fails.
build() {
    local preset=$1 log targets=()
    shift
    while [[ ${1:-} == --target ]]; do
        targets+=("$1" "$2")
        shift 2
    done
    log=$(mktemp)
    if ! { cmake --preset "$preset" "$@" && cmake --build --preset "$preset" "${targets[@]}"; } >"$log" 2>&1; then
        grep -E 'error|warning|FAILED|CMake Error|Could not|No package' "$log" | head -n 40 >&2 || true
        tail -n 20 "$log" >&2
        rm -f "$log"
        die 1 "the $preset build failed (cmake --preset $preset && cmake --build --preset $preset)"
    fi
    rm -f "$log"
}
