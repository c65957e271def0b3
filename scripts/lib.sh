# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# What every script of this folder needs: messages, waiting with a deadline, packages. Source it after
# `set -euo pipefail`. A script names itself first: MUSTER_PROGRAM=lab.

MUSTER_PROGRAM=${MUSTER_PROGRAM:-$(basename "$0" .sh)}

# Results go to stdout, everything below to stderr.
say() { printf '%s: %s\n' "$MUSTER_PROGRAM" "$*" >&2; }
warn() { printf '%s: warning: %s\n' "$MUSTER_PROGRAM" "$*" >&2; }
note() { if [[ -n ${MUSTER_VERBOSE:-} ]]; then say "$@"; fi; }

# die CODE TEXT: 1 failed at run time, 2 bad usage or a bad input file, 4 a deadline passed.
die() {
    local code=$1
    shift
    printf '%s: %s\n' "$MUSTER_PROGRAM" "$*" >&2
    exit "$code"
}

usage_error() { die 2 "$* (try --help)"; }

repo_root() { (cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd); }

need_root() {
    [[ $(id -u) -eq 0 ]] || die 1 "$1 needs root: run it as root (sudo $0 ...)"
}

# Milliseconds since some fixed point, for intervals.
now_ms() {
    local t=${EPOCHREALTIME/[.,]/}
    printf '%s\n' "$((t / 1000))"
}

# wait_until SECONDS WHAT COMMAND...: tries COMMAND until it succeeds. After SECONDS it says what it waited
# for and returns 4. The short pause only keeps the condition from eating a core; nothing counts on its length.
wait_until() {
    local seconds=$1 what=$2 deadline
    shift 2
    deadline=$(($(now_ms) + seconds * 1000))
    until "$@"; do
        if (($(now_ms) >= deadline)); then
            say "waited ${seconds} s for $what: not so"
            return 4
        fi
        sleep 0.05
    done
}

sha256_of() { sha256sum -- "$1" | cut -d' ' -f1; }

# --- packages ---------------------------------------------------------------------------------------------

package_installed() {
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# need_packages PACKAGE...: installs what is missing with apt-get; without apt-get (or without root) it says
# what to install and stops.
need_packages() {
    local package missing=()
    for package in "$@"; do
        package_installed "$package" || missing+=("$package")
    done
    if ((${#missing[@]})); then apt_install "${missing[@]}"; fi
}

# need_commands COMMAND=PACKAGE...: the same, but what counts is the command, wherever it came from.
need_commands() {
    local pair missing=()
    for pair in "$@"; do
        command -v "${pair%%=*}" >/dev/null || missing+=("${pair#*=}")
    done
    if ((${#missing[@]})); then apt_install "${missing[@]}"; fi
}

apt_install() {
    local log status=0
    command -v apt-get >/dev/null ||
        die 1 "missing, and there is no apt-get here to install it with: $* (Debian's package names); install it, then try again"
    [[ $(id -u) -eq 0 ]] || die 1 "missing: $*; as root: apt-get install $*"
    say "installing: $*"
    log=$(mktemp)
    # The lists may be older than what the mirror still holds, so one failure gets fresh lists and a second try.
    apt_quietly install "$@" >"$log" 2>&1 || {
        apt_quietly update >>"$log" 2>&1 || true
        apt_quietly install "$@" >>"$log" 2>&1 || status=$?
    }
    if ((status)); then
        tail -n 15 "$log" >&2
        rm -f "$log"
        die 1 "apt-get install $*: exit $status"
    fi
    rm -f "$log"
}

apt_quietly() {
    local verb=$1
    shift
    if [[ $verb == install ]]; then set -- --no-install-recommends "$@"; fi
    DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120 "$verb" "$@" </dev/null
}
