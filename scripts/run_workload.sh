#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The published workload with docker's own tools: `docker stack deploy`, then a record of what the containers of this
# engine use. `muster run` does the same and more; this is for people who live in docker.
set -euo pipefail

MUSTER_PROGRAM=run_workload
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
    cat <<USAGE
usage: run_workload.sh [-c FILE] [--follow] [--out DIR] [STACK]

Deploys STACK (workload1) from FILE (compose/stacks/STACK.yml) with 'docker stack deploy --prune' and records CPU,
memory and network of this engine's containers, once a second, into DIR/TIME-STACK/stats.csv. Ctrl-C ends the record
and leaves the stack.

  --follow   wait until the workers are done, fetch their files from the collector, then stop; the stack stays
             (docker stack rm STACK)
  --out DIR  where run folders go (runs)

Variables of the stack file that are unset are filled in: MUSTER_STACK, MUSTER_NODE1..3, MUSTER_MANAGER, and the key.

Environment:
  DOCKER_HOST     the engine, a Swarm manager
  MUSTER_BUILD    the build's folder (build/release)
  MUSTER_DOCKER   the docker client to use (docker)
USAGE
}

docker() { command "${MUSTER_DOCKER:-docker}" "$@"; }

# The host names of ready, active nodes fill NODE1..3 in turn, so that fewer than three nodes will do.
fill_variables() {
    local nodes=() i name
    mapfile -t nodes < <(docker node ls --format '{{.Status}} {{.Availability}} {{.Hostname}}' |
        awk '$1 == "Ready" && $2 == "Active" { print $3 }' | sort)
    ((${#nodes[@]})) || die 1 "docker does not point at a Swarm manager with a ready node (DOCKER_HOST, 'docker swarm init')"
    for i in 1 2 3; do
        name=MUSTER_NODE$i
        export "$name=${!name:-${nodes[(i - 1) % ${#nodes[@]}]}}"
    done
    export MUSTER_STACK=${MUSTER_STACK:-$stack}
    export MUSTER_MANAGER=${MUSTER_MANAGER:-$(docker info --format '{{.Name}}')}
}

# The key never touches argv, the environment or a file. The label lets `docker stack rm` take it away.
make_key() {
    local name=${MUSTER_STACK}_muster_key
    docker secret inspect "$name" >/dev/null 2>&1 && return
    say "making the key '$name'"
    head -c 32 /dev/urandom | docker secret create --label "com.docker.stack.namespace=$stack" "$name" - >/dev/null
}

deploy() {
    local options=(--prune -c "$file")
    # Docker's CLI since 26 asks whether to wait; ours does the waiting.
    if docker stack deploy --help | grep -q -- --detach; then options+=(--detach=true); fi
    docker stack deploy "${options[@]}" "$stack"
}

worker_services() {
    docker service ls --filter "label=com.docker.stack.namespace=$stack" --filter label=muster.role=worker --format '{{.Name}}'
}

# The last event of that kind. The log goes back to earlier trainings of the same stack.
last_collected() {
    docker service logs --raw "${stack}_collector" 2>/dev/null | grep '"event":"collected"' | tail -n 1 || true
}

# The last event "epoch" of a service, in order of time: the log gives tasks one after the other.
last_epoch() {
    docker service logs --raw --tail 20 "$1" 2>/dev/null | grep '"event":"epoch"' | sort -t: -k3n | tail -n 1 || true
}

say_epoch() {
    local LC_ALL=C
    # shellcheck disable=SC2046,SC2183 # five numbers
    printf 'epoch %d of %d: %.1f ms a step, loss %.4f, accuracy %.4f\n' $(sed -E \
        's/.*"epoch":([0-9]+),"epochs":([0-9]+).*"ms_per_step":([0-9.]+),"loss":([0-9.e+-]+),"accuracy":([0-9.e+-]+).*/\1 \2 \3 \4 \5/' <<<"$1") >&2
}

# What makes docker start tasks anew.
worker_templates() {
    local service
    for service in $(worker_services | sort); do
        docker service inspect --format '{{.Spec.Name}} {{json .Spec.TaskTemplate}}' "$service"
    done
}

# "SLOT: STATE ERROR" of each worker's newest task, which docker lists first.
worker_states() {
    local service
    for service in $(worker_services); do
        docker service ps --no-trunc --format '{{.Name}}: {{.CurrentState}} {{.Error}}' "$service"
    done | sed 's/^[ \\_]*//' | awk '!seen[$1]++'
}

remember_before() {
    templates_before=$(worker_templates 2>/dev/null) collected_before=$(last_collected)
}

# Where nothing changed and all had ended, the results of before are this deployment's too.
collected() {
    local last
    last=$(last_collected)
    [[ -n $last ]] || return
    [[ $last != "$collected_before" ]] ||
        { [[ $(worker_templates) == "$templates_before" ]] && ! worker_states | grep -vq ': Complete'; }
}

# Prints the first worker that did not end well, once no worker is left that runs or will: Swarm starts again what
# failed, and the others go on meanwhile. Fails when it is not so.
failed_worker() {
    local states
    states=$(worker_states)
    ! grep -qvE ': (Failed|Rejected|Orphaned|Shutdown|Complete)' <<<"$states" &&
        grep -m 1 -E ': (Failed|Rejected|Orphaned)' <<<"$states"
}

follow() {
    local failure last line first_worker failed_looks=0
    first_worker=$(worker_services | head -n 1)
    [[ -n $first_worker ]] || die 1 "stack '$stack' has no service with the label muster.role=worker to follow"
    last=$(last_epoch "$first_worker")
    until collected; do
        # A task that failed has a successor within seconds, or none.
        if failure=$(failed_worker); then ((++failed_looks)); else failed_looks=0; fi
        if ((failed_looks >= 5)); then
            docker service logs --raw --tail 5 "${failure%%.*}" >&2 || true
            die 7 "no worker is left; $failure"
        fi
        kill -0 "$recorder" 2>/dev/null || die 1 "the stats recorder ended by itself"
        line=$(last_epoch "$first_worker")
        if [[ -n $line && $line != "$last" ]]; then
            last=$line
            say_epoch "$line"
        fi
        sleep 1
    done
}

fetch() {
    local container
    container=$(docker ps -q --filter "label=com.docker.swarm.service.name=${stack}_collector" | head -n 1)
    [[ -n $container ]] || die 1 "the collector's container is not on this engine: point DOCKER_HOST at ${MUSTER_MANAGER}"
    docker cp "$container:/runs/$MUSTER_STACK/." "$run_folder/" >/dev/null
}

main() {
    local follow='' out=runs
    file='' stack=''
    while (($#)); do
        case $1 in
        --help | -h)
            usage
            exit 0
            ;;
        -c)
            (($# > 1)) || usage_error "-c needs a file"
            file=$2
            shift
            ;;
        --out)
            (($# > 1)) || usage_error "--out needs a folder"
            out=$2
            shift
            ;;
        --follow) follow=1 ;;
        -*) usage_error "unknown option '$1'" ;;
        *)
            [[ -z $stack ]] || usage_error "more than one stack: '$stack' and '$1'"
            stack=$1
            ;;
        esac
        shift
    done
    stack=${stack:-workload1}
    file=${file:-$(repo_root)/compose/stacks/$stack.yml}
    [[ -r $file ]] || die 2 "stack file '$file' cannot be read"
    local monitor=${MUSTER_BUILD:-$(repo_root)/build/release}/monitoring/muster-monitor
    [[ -x $monitor ]] || die 1 "'$monitor' is not built: cmake --preset release && cmake --build --preset release"

    fill_variables
    run_folder=$out/$(date -u +%Y%m%dT%H%M%SZ)-$stack
    mkdir -p "$run_folder" || die 1 "cannot make the run folder '$run_folder'"
    make_key
    remember_before
    deploy

    "$monitor" csv --node "$(docker info --format "{{.Name}}")" "$run_folder/stats.csv" &
    recorder=$!
    # shellcheck disable=SC2064 # the pid of now
    trap "kill -TERM $recorder 2>/dev/null || true; wait $recorder 2>/dev/null || true" EXIT
    trap 'say "stopped watching; the stack stays: docker stack rm $stack"; exit 130' INT
    if [[ -n $follow ]]; then
        follow
        fetch
        say "results: $run_folder; the stack stays: docker stack rm $stack"
    else
        say "recording to $run_folder/stats.csv until Ctrl-C"
        wait "$recorder"
    fi
}

main "$@"
