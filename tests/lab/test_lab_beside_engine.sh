#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The lab comes and goes beside an engine that the machine already runs, and neither notices the other. "The machine"
# is a namespace with interfaces, a /run and a /var/lib/docker of its own, so that the test leaves the real one alone.
set -euo pipefail
# shellcheck source=tests/lab/lib.sh
source "$(dirname "$0")/lib.sh"

readonly places=(/run /var/lib/docker /var/lib/containerd /etc/docker /opt/containerd)

# --- around the machine -----------------------------------------------------------------------------------

engine_processes() {
    find /sys/fs/cgroup -path "*$group*" -name cgroup.procs -exec cat {} + 2>/dev/null | sort -u
}

engine_swept() {
    local pids
    mapfile -t pids < <(engine_processes)
    if ((${#pids[@]})); then
        kill -KILL "${pids[@]}" 2>/dev/null || true
        return 1
    fi
    find /sys/fs/cgroup -depth -path "*$group*" -type d -exec rmdir {} + 2>/dev/null || true
    [[ -z $(find /sys/fs/cgroup -path "*$group*" -type d 2>/dev/null) ]]
}

outside() {
    local place
    group=/muster-test-$$
    lab_test
    at_end 'wait_until 20 "the engine of the test to end" engine_swept'
    for place in "${places[@]}"; do
        [[ -d $place ]] || { mkdir -p "$place"; at_end "rmdir --ignore-fail-on-non-empty $place"; }
    done
    run 150 unshare --net --mount --propagation private "$0" --in-machine "$group"
    printf '%s\n' "$output"
    expect_status 0
}

# --- inside it --------------------------------------------------------------------------------------------

engine_start() {
    local hierarchy=/sys/fs/cgroup/pids
    [[ -d $hierarchy ]] || hierarchy=/sys/fs/cgroup
    mkdir -p "$hierarchy$group/engine"
    (
        echo "$BASHPID" >"$hierarchy$group/engine/cgroup.procs"
        exec setsid "$@"
    ) >>"$test_folder/engine.log" 2>&1 </dev/null &
    disown
}

machine() { "$docker" -H unix:///run/docker.sock "$@"; }

# What must not change. Addresses and rules of the machine, its engine's containers and the process in one.
machine_state() {
    ip -o -4 addr | awk '{ print $2, $4 }'
    iptables-save | grep -v '^#' | sed 's/ \[.*//'
    machine ps --no-trunc --format '{{.ID}} {{.Names}}'
    machine inspect --format '{{.State.Status}} {{.State.Pid}} {{.State.StartedAt}}' sleeper
    machine info --format '{{.Swarm.LocalNodeState}} {{.Name}} {{.Images}}'
    find /run -maxdepth 2 -name '*.sock' | sort
}

inside() {
    local place node before
    lab_test
    unset DOCKER_HOST DOCKER_CONTEXT
    docker=${MUSTER_DOCKER:-docker}
    for place in "${places[@]}"; do mount -t tmpfs tmpfs "$place"; done
    ip link set lo up
    ip link add lan0 type bridge
    ip addr add 192.0.2.10/24 dev lan0
    ip link set lan0 up
    engine_start containerd --log-level warn
    wait_until 20 "the machine's containerd" test -S /run/containerd/containerd.sock
    engine_start dockerd --log-level warn --exec-opt native.cgroupdriver=cgroupfs --cgroup-parent "$group"
    wait_until 20 "the machine's engine" test -S /run/docker.sock

    step "the machine's engine runs a container"
    tiny_image /run/docker.sock tiny:1
    run 30 "$docker" -H unix:///run/docker.sock run -d --name sleeper tiny:1 sleep 1000
    expect_status 0
    before=$(machine_state)

    step "the lab comes up beside it"
    lab_own_folder
    run 60 "$lab" up -n 2
    expect_status 0
    expect_equal "$(machine_state)" "$before" "the machine with the lab up"

    step "a node sees its own engine only"
    for node in node1 node2; do
        run 10 "$lab" exec "$node" "$docker" -H unix:///run/docker.sock info --format '{{.Name}} {{.Containers}}'
        expect_equal "$output" "$node 0" "engine behind the node's /run/docker.sock"
        run 10 "$lab" exec "$node" ls /run/containerd/containerd.sock
        ((status != 0)) || fail "$node sees the machine's containerd"
    done

    step "an engine of the lab is killed, the lab goes down: the machine's goes on"
    tiny_image "$(node_socket node1)" tiny:1
    run 30 "$docker" -H "unix://$(node_socket node1)" run -d tiny:1 sleep 1000
    expect_status 0
    kill -KILL "$(<"$MUSTER_LAB_DIR/nodes/node1/dockerd.pid")"
    run 30 "$lab" down
    expect_status 0
    expect_equal "$(machine_state)" "$before" "the machine after the lab"
    run 10 "$docker" -H unix:///run/docker.sock restart -t 0 sleeper
    expect_status 0
}

if [[ ${1-} == --in-machine ]]; then
    group=$2
    inside
else
    outside
fi
