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

use_lab() {
    phase "lab: three Docker engines on this machine"
    [[ -n $keep ]] || trap 'scripts/lab.sh down' EXIT
    scripts/lab.sh up
    phase "image"
    scripts/build_image.sh -o "$archive" >/dev/null
    scripts/lab.sh load "$archive" >/dev/null
    eval "$(scripts/lab.sh env)"
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
    keep='' registry='' archive=build/release/muster-image.tar
    while (($#)); do
        case $1 in
        --help | -h) usage && exit 0 ;;
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

# shellcheck disable=SC2016 # the commands are for the reader's shell
say_how_to_look() {
    cat >&2 <<LOOK

The stack is still there. To look around:
$([[ -n $1 ]] || echo '    eval "$(scripts/lab.sh env)"')
    docker stack ps workload1
    build/release/swarm/muster ps workload1
    build/release/swarm/muster logs workload1
    build/release/swarm/muster rm workload1
$([[ -n $1 ]] || echo '    scripts/lab.sh status
    scripts/lab.sh down')
LOOK
}

main "$@"
