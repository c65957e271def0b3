#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# From a fresh clone to a trained model: installs what is missing, builds, brings up a Swarm of three engines on this
# machine (or takes the one that docker points at), and trains the published workload on it.
set -euo pipefail

MUSTER_PROGRAM=quickstart
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=scripts/build.sh
source "$(dirname "${BASH_SOURCE[0]}")/build.sh"

usage() {
    cat <<USAGE
usage: quickstart.sh [--here] [--keep] [--registry HOST:PORT] [-- OPTIONS OF muster run]

  --here                use the Swarm that docker already points at, instead of the lab
  --registry HOST:PORT  with --here: push the image there (needed when the Swarm has more than one node)
  --keep                leave the lab up (with --here: leave the stack), and say how to look around

Everything after -- goes to 'muster run', for instance: -- -e MUSTER_EPOCHS=2
USAGE
}

phase() { printf '\n== %s\n' "$*" >&2; }

start_ms=$(now_ms)
seconds_since_start() {
    local ms=$(($(now_ms) - start_ms))
    printf '%d.%d' $((ms / 1000)) $((ms % 1000 / 100))
}

# Only the lab that this call started is its to take down.
use_lab() {
    phase "lab: three Docker engines on this machine"
    if scripts/lab.sh status >/dev/null 2>&1; then
        own_lab=''
        say "there is a lab already: using it, and leaving it up"
    else
        own_lab=1
    fi
    trap 'take_down $?' EXIT
    scripts/lab.sh up
    no_stack_yet "$(scripts/lab.sh env)"
    phase "image"
    scripts/build_image.sh -o "$archive" >/dev/null
    scripts/lab.sh load "$archive" >/dev/null
    eval "$(scripts/lab.sh env)"
}

# Before a long build of the image: a stack of that name would stop the run anyway.
no_stack_yet() {
    eval "$1"
    if [[ -n $("${MUSTER_DOCKER:-docker}" service ls -q --filter label=com.docker.stack.namespace=workload1) ]]; then
        die 1 "stack 'workload1' is there already (another quickstart, or a kept one); remove it with:
    $(at_lab)build/release/swarm/muster rm workload1"
    fi
}

# What a shell needs in front to talk to the lab.
# shellcheck disable=SC2016 # for the reader's shell
at_lab() {
    if [[ -n ${MUSTER_LAB_DIR:-} ]]; then printf 'export MUSTER_LAB_DIR=%q; ' "$MUSTER_LAB_DIR"; fi
    printf 'cd %q; eval "$(scripts/lab.sh env)"; ' "$PWD"
}

# At every end. muster has removed its stack by then, whether it was done, interrupted or failed.
take_down() {
    local status=$1
    trap - EXIT
    if [[ -n $own_lab && -z $keep ]]; then
        scripts/lab.sh down
    elif [[ $status -ne 0 ]]; then
        say "the lab is still up; scripts/lab.sh down ends it"
    fi
    exit "$status"
}

use_here() {
    local nodes
    phase "image"
    need_commands docker=docker.io
    nodes=$(docker node ls -q 2>/dev/null | wc -l) || true
    ((nodes > 0)) || die 1 "docker does not point at a Swarm manager ('docker swarm init' makes one of this engine)"
    if [[ -n $registry ]]; then
        MUSTER_IMAGE=$(scripts/build_image.sh -o "$archive" --push "$registry")
    elif ((nodes == 1)); then
        scripts/build_image.sh -o "$archive" --load >/dev/null
        MUSTER_IMAGE=muster:latest
    else
        die 2 "this Swarm has $nodes nodes, which take the image from a registry: name one with --registry HOST:PORT"
    fi
    export MUSTER_IMAGE
}

main() {
    local here='' run_options=()
    keep='' registry='' own_lab='' archive=build/release/muster-image.tar
    while (($#)); do
        case $1 in
        --help | -h)
            usage
            exit 0
            ;;
        --here) here=1 ;;
        --keep) keep=1 ;;
        --registry)
            (($# > 1)) || usage_error "--registry needs HOST:PORT"
            registry=$2
            shift
            ;;
        --)
            shift
            run_options=("$@")
            break
            ;;
        *) usage_error "unknown argument '$1'" ;;
        esac
        shift
    done
    cd "$(repo_root)"
    [[ -n $here || -z $registry ]] || usage_error "--registry goes with --here: the lab has a registry of its own"
    if [[ -z $here ]]; then need_root quickstart; fi

    phase "packages and build"
    # shellcheck disable=SC2119 # no further packages
    need_build_packages
    build release
    if [[ -n $here ]]; then use_here; else use_lab; fi
    if [[ -n $keep ]]; then run_options+=(--leave); fi

    phase "training: three workers, MNIST, the published workload"
    # On the lab, muster runs on the first node: whatever networks this machine has are not the lab's concern.
    local on_node=()
    if [[ -z $here ]]; then on_node=(scripts/lab.sh exec node1); fi
    "${on_node[@]}" build/release/swarm/muster run -c compose/stacks/workload1.yml "${run_options[@]}" workload1
    say "$(seconds_since_start) s in all"
    if [[ -n $keep ]]; then say_how_to_look "$here"; fi
}

say_how_to_look() {
    say "the stack is still there; to look around:"
    if [[ -z $1 ]]; then say "    $(at_lab)"; fi
    cat >&2 <<'LOOK'
    docker stack ps workload1
    build/release/swarm/muster ps workload1
    build/release/swarm/muster logs workload1 w1
    build/release/swarm/muster rm workload1
LOOK
    if [[ -z $1 ]]; then
        cat >&2 <<'LOOK'
    scripts/lab.sh status
    scripts/lab.sh down
LOOK
    fi
}

main "$@"
