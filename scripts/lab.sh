#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The lab: a real Docker Swarm of several nodes on one Linux machine, as kind is for Kubernetes. Each node is a
# network, a UTS and a mount namespace with an engine of its own in it; a bridge in one more network namespace
# joins them. Nothing connects that bridge to the machine, so nothing that the lab sends can leave it.
#
# The state lies under one folder, which is a mount of its own, and every process of the lab sits in one control
# group. So `down` needs no pid file to know what is the lab's, whatever was killed half-way: it ends the group's
# processes, unmounts what is mounted under the folder, and removes both.
set -euo pipefail

MUSTER_PROGRAM=lab
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/lib.sh
source "$here/lib.sh"
# shellcheck source=scripts/lab/state.sh
source "$here/lab/state.sh"
# shellcheck source=scripts/lab/image.sh
source "$here/lab/image.sh"

usage() {
    cat <<USAGE
usage: lab.sh VERB [ARGUMENTS]

A Docker Swarm of several real engines on this machine, without a way out of it. Needs root.

  up [-n N] [--managers M]  start N nodes (3), the first M of them managers (1); node1 leads
  down                      end everything of the lab and remove its files
  status                    a table of the nodes; exit code 1 when the lab is not up
  env [NODE]                print lines for eval: DOCKER_HOST (node1's engine, or NODE's), MUSTER_IMAGE, ...
  exec NODE CMD...          run CMD in the node's network, UTS and mount namespaces
  load IMAGE                give all nodes an image: an archive's file name, or a tag that a node has
  shape NODE RATE           limit the node's link, both ways: 100mbit, 1gbit, ...
  cut NODE                  pull the node's plug: its link goes down
  heal NODE                 undo cut and shape

Environment:
  MUSTER_LAB_DIR      where the state lies (/var/lib/muster-lab)
  MUSTER_LAB_STORAGE  disk, memory or auto (disk, if overlay mounts work there)
  MUSTER_DOCKER       the docker client to use (the first on PATH that can talk to the engine)
USAGE
}

# --- up ---------------------------------------------------------------------------------------------------

cmd_up() {
    local nodes='' managers='' has
    while (($#)); do
        case $1 in
        -n | --nodes) nodes=${2-}; shift 2 || usage_error "up: $1 needs a number" ;;
        --managers) managers=${2-}; shift 2 || usage_error "up: $1 needs a number" ;;
        *) usage_error "up: unknown argument '$1'" ;;
        esac
    done
    # A lab that is up has to have what was asked for, and what was not asked for does not matter.
    local wanted="${nodes:-*} ${managers:-*}"
    nodes=${nodes:-$LAB_DEFAULT_NODES} managers=${managers:-1}
    number_within "$nodes" 1 "$LAB_MAX_NODES" ||
        usage_error "up: -n $nodes: not a number from 1 to $LAB_MAX_NODES"
    number_within "$managers" 1 "$nodes" ||
        usage_error "up: --managers $managers: not a number from 1 to $nodes"
    need_root up
    need_lab_packages
    lab_lock

    if lab_ready; then
        has="$(state_get nodes) $(state_get managers)"
        # shellcheck disable=SC2053 # a pattern
        [[ $has == $wanted ]] ||
            die 1 "a lab of ${has% *} nodes, ${has#* } of them managers, is up in $LAB_DIR; take it down first"
        if lab_healthy; then
            say "already up: ${has% *} nodes in $LAB_DIR"
            return
        fi
        warn "an engine is gone; starting afresh"
    elif lab_remains; then
        say "clearing away what an interrupted lab left"
    fi
    lab_destroy

    local start
    start=$(now_ms)
    callers_group=$(cgroup_own)
    trap 'up_failed $?' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    # Whatever is started from here on is born in the lab's group, so that none of it can slip past what ends the group.
    cgroup_create
    cgroup_enter up
    lab_create "$nodes" "$managers"
    trap - EXIT INT TERM
    local ms=$(($(now_ms) - start))
    say "up: $nodes nodes, $managers managers, engine $(state_get engine), client $(state_get client) ($(state_get cli)), $((ms / 1000)).$(printf %03d $((ms % 1000))) s"
    say "to talk to it: eval \"\$($0 env)\""
}

number_within() { [[ $1 =~ ^[1-9][0-9]{0,5}$ ]] && (($1 >= $2 && $1 <= $3)); }

# The logs vanish with the lab, so what they say comes first.
up_failed() {
    local status=$1 log
    trap - EXIT
    trap '' INT TERM
    # What is still starting would make things again that are about to be removed.
    echo "$BASHPID" >"$callers_group/cgroup.procs"
    processes_kill
    wait || true
    for log in "$LAB_DIR"/nodes/*/dockerd.log "$LAB_DIR"/registry/log; do
        [[ -s $log ]] || continue
        say "last lines of ${log#"$LAB_DIR"/}:"
        tail -n 5 "$log" | cut -c1-400 >&2
    done
    lab_destroy || true
    exit "$status"
}

# dockerd from wherever it came; docker.io is for machines that have none.
need_lab_packages() {
    local needed=(dockerd=docker.io ip=iproute2 tc=iproute2 iptables=iptables nsenter=util-linux unshare=util-linux
        flock=util-linux mount=mount hostname=hostname column=bsdextrautils)
    if [[ -n $(registry_program) ]]; then
        need_commands "${needed[@]}"
        return
    fi
    need_commands "${needed[@]}" docker-registry=docker-registry
    # Debian's package starts a registry on the machine's own port 5000 that nobody asked for.
    if [[ -d /run/systemd/system ]]; then
        systemctl disable --quiet --now docker-registry.service || warn "cannot stop docker-registry.service"
    elif [[ -x /etc/init.d/docker-registry ]]; then
        service docker-registry stop >/dev/null 2>&1 || true
    fi
}

registry_program() { command -v docker-registry || command -v registry || true; }

lab_create() {
    local nodes=$1 managers=$2 number
    machine_folders_make
    folder_create "$nodes"
    state_set nodes "$nodes"
    state_set managers "$managers"
    fabric_create "$nodes"
    registry_start

    local jobs=()
    for ((number = 1; number <= nodes; number++)); do
        node_create "$number" &
        jobs+=($!)
    done
    jobs_wait "${jobs[@]}" || die $? "not all engines started"

    cli_choose
    swarm_create "$nodes" "$managers"
    : >"$LAB_DIR/ready"
}

# jobs_wait PID...: 0, or the code of the last that failed. They all have deadlines of their own.
jobs_wait() {
    local pid failed=0
    for pid in "$@"; do
        wait "$pid" || failed=$?
    done
    return "$failed"
}

fabric_create() {
    local nodes=$1 number
    namespace_file "$LAB_DIR/fabric"
    unshare --net="$LAB_DIR/fabric" true
    {
        echo "link set lo up"
        echo "link add br0 type bridge"
        echo "addr add $LAB_REGISTRY_ADDRESS/$LAB_PREFIX dev br0"
        echo "link set br0 up"
    } | fabric_run ip -batch -
    for ((number = 1; number <= nodes; number++)); do
        mkdir -p "$LAB_DIR/nodes/node$number"/{data,tmp}
        namespace_file "$LAB_DIR/nodes/node$number/net"
        unshare --net="$LAB_DIR/nodes/node$number/net" true
        # Both ends are born in the lab's namespaces: the machine's own never sees an interface.
        echo "link add node$number type veth peer name eth0 netns $LAB_DIR/nodes/node$number/net"
        echo "link set node$number master br0 up"
    done | fabric_run ip -batch -
}

registry_start() {
    local folder=$LAB_DIR/registry
    mkdir -p "$folder"
    cat >"$folder/config.yml" <<CONFIG
version: 0.1
log: {level: warn, accesslog: {disabled: true}}
storage:
  filesystem: {rootdirectory: $folder/data}
  cache: {blobdescriptor: inmemory}
http: {addr: $LAB_REGISTRY}
CONFIG
    (
        cgroup_enter fabric
        OTEL_TRACES_EXPORTER=none exec setsid nsenter --net="$LAB_DIR/fabric" \
            "$(registry_program)" serve "$folder/config.yml"
    ) </dev/null >"$folder/log" 2>&1 9>&- &
    disown
}

registry_answers() { fabric_run bash -c ": <>/dev/tcp/${LAB_REGISTRY/:/\/}" 2>/dev/null; }

# node_namespaces FOLDER CMD...: new UTS and mount namespaces, kept in files of the folder, in which CMD prepares the
# node. The kernel lets a mount namespace be kept in a file only if its number is higher than that of the one we are
# in, so that no two keep each other alive; and it hands the numbers out in blocks, one for each CPU. In a nested
# namespace the first try may therefore fail, and succeeds on the CPU where ours was made.
node_namespaces() {
    local folder=$1 cpu said='' place=()
    shift
    for cpu in any $(seq 0 $(($(nproc --all) - 1))); do
        if [[ $cpu != any ]]; then place=(taskset -c "$cpu"); fi
        namespace_file "$folder/uts"
        namespace_file "$folder/mnt"
        if said=$(nsenter --net="$folder/net" "${place[@]}" unshare --uts="$folder/uts" --mount="$folder/mnt" \
            --propagation private "$@" 2>&1); then
            [[ -z $said ]] || printf '%s\n' "$said" >&2
            return 0
        fi
        umount "$folder/uts" "$folder/mnt" 2>/dev/null || true
        [[ $said == *"ns/mnt"*"Invalid argument"* ]] || break
    done
    printf '%s\n' "$said" >&2
    return 1
}

node_create() {
    local number=$1 name=node$1 folder=$LAB_DIR/nodes/node$1
    node_namespaces "$folder" "$here/lab/node.sh" setup "$name" "$LAB_NETWORK.$number/$LAB_PREFIX" \
        "${LAB_ENGINE_FOLDERS[@]}"
    # The second socket is for tasks on the node that mount /var/run/docker.sock.
    cat >"$folder/daemon.json" <<CONFIG
{
    "hosts": ["unix://$folder/docker.sock", "unix:///run/docker.sock"],
    "pidfile": "$folder/dockerd.pid",
    "data-root": "$folder/data",
    "exec-root": "/run/docker",
    "storage-driver": "overlay2",
    "exec-opts": ["native.cgroupdriver=cgroupfs"],
    "cgroup-parent": "/$LAB_ID/$name",
    "insecure-registries": ["$LAB_NETWORK.0/$LAB_PREFIX"],
    "log-level": "warn"
}
CONFIG
    (
        cgroup_enter "$name/engine"
        exec setsid nsenter --net="$folder/net" --uts="$folder/uts" --mount="$folder/mnt" \
            "$here/lab/node.sh" engine "$folder/daemon.json"
    ) </dev/null >"$folder/dockerd.log" 2>&1 9>&- &
    local pid=$!
    disown
    wait_until "$LAB_START_SECONDS" "the engine of $name" engine_listens "$folder/docker.sock" "$pid" || return
    [[ -S $folder/docker.sock ]] || die 1 "the engine of $name ended as it started"
}

# Also true when the engine is dead: then there is nothing to wait for.
engine_listens() { [[ -S $1 ]] || ! kill -0 "$2" 2>/dev/null; }

# The machine may have several clients, and not every one can talk to this engine (an API version too new or too
# old): take the first that can.
cli_choose() {
    local candidate versions tried=()
    while read -r candidate; do
        [[ -n $candidate ]] || continue
        if versions=$(DOCKER_HOST=$(node_host node1) timeout "$LAB_START_SECONDS" "$candidate" version \
            --format '{{.Client.Version}} {{.Server.Version}}' 2>"$LAB_DIR/cli.log"); then
            state_set cli "$candidate"
            state_set client "${versions% *}"
            state_set engine "${versions#* }"
            return
        fi
        tried+=("$candidate: $(tail -n 1 "$LAB_DIR/cli.log")")
    done < <(printf '%s\n' "${MUSTER_DOCKER:-}"; type -aP docker || true)
    ((${#tried[@]})) || die 1 "no docker client on PATH"
    die 1 "no docker client can talk to the engine: ${tried[*]}"
}

swarm_create() {
    local nodes=$1 managers=$2 number role token jobs=()
    docker_on node1 swarm init --advertise-addr "$LAB_NETWORK.1" >/dev/null
    for ((number = 2; number <= nodes; number++)); do
        role=worker
        ((number > managers)) || role=manager
        token=$(docker_on node1 swarm join-token -q "$role")
        docker_on "node$number" swarm join --token "$token" --advertise-addr "$LAB_NETWORK.$number" \
            "$LAB_NETWORK.1:2377" >/dev/null &
        jobs+=($!)
        # Managers one at a time: raft refuses a newcomer while the one before is not yet in.
        if [[ $role == manager ]]; then wait "${jobs[-1]}"; unset 'jobs[-1]'; fi
    done
    jobs_wait "${jobs[@]}" || die 1 "not all nodes joined the swarm"
    wait_until "$LAB_START_SECONDS" "$nodes nodes to be ready" nodes_ready "$nodes"
    wait_until "$LAB_START_SECONDS" "the registry" registry_answers
}

nodes_ready() {
    local ready
    ready=$(docker_on node1 node ls --format '{{.Status}}' | grep -c '^Ready$') && ((ready == $1))
}

# --- the other verbs --------------------------------------------------------------------------------------

cmd_down() {
    (($# == 0)) || usage_error "down: unknown argument '$1'"
    need_root down
    lab_lock
    if ! lab_remains; then
        say "no lab in $LAB_DIR"
        return
    fi
    local start
    start=$(now_ms)
    lab_destroy
    local ms=$(($(now_ms) - start))
    say "down, $((ms / 1000)).$(printf %03d $((ms % 1000))) s"
}

cmd_status() {
    (($# == 0)) || usage_error "status: unknown argument '$1'"
    if ! lab_ready; then
        if lab_remains; then say "half a lab is left in $LAB_DIR: 'up' or 'down' clears it away"; else say "no lab in $LAB_DIR"; fi
        return 1
    fi
    need_root status
    local name line swarm
    swarm=$(docker_on node1 node ls --format '{{.Hostname}} {{.Status}}/{{.Availability}} {{.ManagerStatus}}' 2>/dev/null) || swarm=
    {
        echo "NODE ADDRESS ENGINE SWARM ROLE LINK RATE SOCKET"
        for name in $(node_names); do
            line=$(awk -v name="$name" '$1 == name { print $2, ($3 ? $3 : "Worker") }' <<<"$swarm")
            echo "$name $LAB_NETWORK.${name#node} $(engine_alive "$name" && state_get engine || echo gone)" \
                "${line:-unknown -} $(link_state "$name") $(link_rate "$name") $LAB_DIR/nodes/$name/docker.sock"
        done
    } | column -t
    [[ ! -s $LAB_DIR/image ]] || echo "image: $(<"$LAB_DIR/image")"
    lab_healthy && [[ -n $swarm ]]
}

link_state() {
    if [[ $(fabric_run ip -o link show "$1") == *state\ DOWN* ]]; then echo cut; else echo up; fi
}

link_rate() {
    local rate
    rate=$(fabric_run tc qdisc show dev "$1" root | sed -n 's/.* tbf .*rate \([^ ]*\).*/\1/p')
    echo "${rate:--}"
}

cmd_env() {
    (($# <= 1)) || usage_error "env: unknown argument '$2'"
    need_lab
    local name=${1:-node1}
    need_node "$name"
    echo "unset DOCKER_CONTEXT DOCKER_TLS_VERIFY DOCKER_CERT_PATH DOCKER_API_VERSION"
    printf 'export %s=%q\n' DOCKER_HOST "$(node_host "$name")" MUSTER_DOCKER "$(state_get cli)" \
        MUSTER_LAB_DIR "$LAB_DIR" MUSTER_LAB_NODES "$(node_names | xargs)" MUSTER_LAB_REGISTRY "$LAB_REGISTRY"
    [[ ! -s $LAB_DIR/image ]] || printf 'export MUSTER_IMAGE=%q\n' "$(<"$LAB_DIR/image")"
}

cmd_exec() {
    (($# >= 2)) || usage_error "exec: needs NODE and CMD"
    need_root exec
    need_lab
    need_node "$1"
    local name=$1
    shift
    cgroup_enter "$name/exec"
    unset DOCKER_CONTEXT DOCKER_TLS_VERIFY DOCKER_CERT_PATH DOCKER_API_VERSION
    # Entering a mount namespace leaves one in its root folder; signals reach CMD, for nothing stays in between.
    # shellcheck disable=SC2016
    DOCKER_HOST=$(node_host "$name") exec nsenter --net="$LAB_DIR/nodes/$name/net" --uts="$LAB_DIR/nodes/$name/uts" \
        --mount="$LAB_DIR/nodes/$name/mnt" -- bash -c 'cd "$0" 2>/dev/null || cd /; exec "$@"' "$PWD" "$@"
}

cmd_shape() {
    (($# == 2)) || usage_error "shape: needs NODE and RATE"
    local name=$1 rate=$2 number unit kbit burst
    [[ $rate =~ ^([1-9][0-9]{0,6})(kbit|mbit|gbit)$ ]] || usage_error "shape: '$rate' is not a rate like 100mbit (kbit, mbit, gbit)"
    number=${BASH_REMATCH[1]} unit=${BASH_REMATCH[2]}
    case $unit in kbit) kbit=$number ;; mbit) kbit=$((number * 1000)) ;; gbit) kbit=$((number * 1000000)) ;; esac
    need_root shape
    need_lab
    need_node "$name"
    # The bucket holds 4 ms' worth: less and the timer's tick cannot keep the rate up, more and a step's exchange
    # would slip through unshaped. At least 32 KiB, so that a small rate still passes whole packets.
    burst=$((kbit / 2))
    ((burst >= 32768)) || burst=32768
    local shaping=(root tbf rate "$rate" burst "$burst" latency 50ms)
    fabric_run tc qdisc replace dev "$name" "${shaping[@]}"
    node_run "$name" tc qdisc replace dev eth0 "${shaping[@]}"
}

cmd_cut() {
    (($# == 1)) || usage_error "cut: needs NODE"
    need_root cut
    need_lab
    need_node "$1"
    # The fabric's end, so that the node keeps its address and routes, as with a cable that was pulled.
    fabric_run ip link set "$1" down
}

cmd_heal() {
    (($# == 1)) || usage_error "heal: needs NODE"
    need_root heal
    need_lab
    need_node "$1"
    fabric_run ip link set "$1" up
    fabric_run tc qdisc del dev "$1" root 2>/dev/null || true
    node_run "$1" tc qdisc del dev eth0 root 2>/dev/null || true
}

main() {
    (($#)) || { usage >&2; exit 2; }
    local verb=$1
    shift
    [[ $verb != exec ]] || { [[ ${1-} != --help ]] || verb=help; }
    if [[ $verb != exec ]]; then
        local argument
        for argument in "$verb" "$@"; do
            case $argument in -h | --help | help) usage; exit 0 ;; esac
        done
    fi
    case $verb in
    up | down | status | env | exec | load | shape | cut | heal) "cmd_$verb" "$@" ;;
    *) usage_error "unknown verb '$verb'" ;;
    esac
}

lab_paths
main "$@"
