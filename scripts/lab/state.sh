# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Where the lab's things lie, what is the lab's, and how it is taken away again. Sourced by lab.sh.

# shellcheck disable=SC2034 # lab.sh and image.sh use them
{
    readonly LAB_NETWORK=10.77.0 LAB_PREFIX=24
    readonly LAB_REGISTRY_ADDRESS=$LAB_NETWORK.254
    readonly LAB_REGISTRY=$LAB_REGISTRY_ADDRESS:5000
    readonly LAB_DEFAULT_NODES=3 LAB_MAX_NODES=32
    readonly LAB_START_SECONDS=30 # for any one step of `up`; one takes about a second on an idle machine
    readonly LAB_STOP_SECONDS=20
    readonly LAB_LOCK_SECONDS=120
    readonly LAB_NODE_MIB=1024 # what a node's images, volumes and logs may need in memory
}
# Folders that engines make on any machine they run on, and that are hidden from the nodes' engines.
readonly LAB_ENGINE_FOLDERS=(/etc/docker /opt/containerd)

lab_paths() {
    LAB_DIR=$(readlink -m "${MUSTER_LAB_DIR:-/var/lib/muster-lab}")
    [[ $LAB_DIR != /run/* ]] || die 2 "MUSTER_LAB_DIR=$LAB_DIR: not under /run, for the nodes have a /run of their own"
    [[ $LAB_DIR =~ ^/[A-Za-z0-9._/-]+$ ]] || die 2 "MUSTER_LAB_DIR=$LAB_DIR: letters, digits and ._/- only"
    # sun_path holds 108 bytes with the closing zero.
    local longest=$LAB_DIR/nodes/node$LAB_MAX_NODES/docker.sock
    ((${#longest} < 108)) || die 2 "MUSTER_LAB_DIR=$LAB_DIR: too long: a socket's path must stay under 108 bytes"
    # Two labs in two folders do not meet.
    LAB_ID=muster-lab-$(cksum <<<"$LAB_DIR" | awk '{ printf "%08x", $1 }')
}

# The lock is on the parent folder, since the lab's own comes and goes. Daemons do not inherit it (9>&-).
lab_lock() {
    mkdir -p "${LAB_DIR%/*}/"
    exec 9<"${LAB_DIR%/*}/"
    flock -w "$LAB_LOCK_SECONDS" 9 || die 4 "waited $LAB_LOCK_SECONDS s for another lab.sh that works on $LAB_DIR"
}

state_get() { sed -n "s/^$1=//p" "$LAB_DIR/state"; }
state_set() { printf '%s=%s\n' "$1" "$2" >>"$LAB_DIR/state"; }

lab_ready() { [[ -e $LAB_DIR/ready ]]; }

lab_healthy() {
    local name
    for name in $(node_names); do
        engine_alive "$name" || return 1
    done
    registry_answers
}

# A lab or a part of one: its folder, its mounts or its control groups.
lab_remains() { [[ -e $LAB_DIR/$LAB_MARKER || -n "$(lab_mounts)$(cgroup_folders)" ]]; }

need_lab() { lab_ready || die 1 "no lab is up in $LAB_DIR (start it with: $0 up)"; }

node_names() { seq -f 'node%.0f' "$(state_get nodes)"; }
node_host() { echo "unix://$LAB_DIR/nodes/$1/docker.sock"; }

need_node() {
    [[ $1 =~ ^node[0-9]+$ && -d $LAB_DIR/nodes/$1 ]] || usage_error "there is no node '$1' (have: $(node_names | xargs))"
}

# docker_on NODE ARGUMENTS...: the client, free of the user's own contexts, TLS settings and credentials.
docker_on() {
    local name=$1
    shift
    env -u DOCKER_CONTEXT -u DOCKER_TLS_VERIFY -u DOCKER_CERT_PATH -u DOCKER_API_VERSION \
        DOCKER_HOST="$(node_host "$name")" DOCKER_CONFIG="$LAB_DIR/docker-config" "$(state_get cli)" "$@"
}

fabric_run() { nsenter --net="$LAB_DIR/fabric" -- "$@"; }

node_run() {
    local folder=$LAB_DIR/nodes/$1
    shift
    nsenter --net="$folder/net" --uts="$folder/uts" --mount="$folder/mnt" -- "$@"
}

# A pid from a file may be anybody's by now; a process in the node's own control group is the node's.
engine_alive() {
    local pid
    pid=$(cat "$LAB_DIR/nodes/$1/dockerd.pid" 2>/dev/null) || return 1
    [[ $pid =~ ^[0-9]+$ ]] && grep -qsx "$pid" "$(cgroup_hierarchy)/$LAB_ID/$1/engine/cgroup.procs"
}

# --- the folder -------------------------------------------------------------------------------------------

readonly LAB_MARKER=.muster-lab

# A private mount, so that namespaces can be kept in its files. Memory when there is plenty: the engines' stores
# sync to disk at every step (`up` takes half as long), and one umount takes all of it away. An image of 100 MB
# lies there once for each node and compressed in the registry.
folder_create() {
    local nodes=$1 available_mib storage=${MUSTER_LAB_STORAGE:-auto} folder
    if [[ -d $LAB_DIR && -n $(ls -A "$LAB_DIR") ]]; then
        die 1 "$LAB_DIR holds files that are not a lab's"
    fi
    mkdir -p "$LAB_DIR"
    available_mib=$(awk '$1 == "MemAvailable:" { print int($2 / 1024) }' /proc/meminfo)
    case $storage in
    auto) if ((available_mib >= 2048 + nodes * LAB_NODE_MIB)); then storage=memory; else storage=disk; fi ;;
    memory | disk) ;;
    *) die 2 "MUSTER_LAB_STORAGE=$storage: not memory, disk or auto" ;;
    esac
    if [[ $storage == memory ]]; then
        mount -t tmpfs -o "mode=711,size=$((available_mib * 3 / 4))m" muster-lab "$LAB_DIR"
    else
        : >"$LAB_DIR/$LAB_MARKER"
        mount --bind "$LAB_DIR" "$LAB_DIR"
    fi
    mount --make-private "$LAB_DIR"
    : >"$LAB_DIR/$LAB_MARKER"
    : >"$LAB_DIR/state"
    mkdir -p "$LAB_DIR/docker-config"
    state_set storage "$storage"
    for folder in "${LAB_ENGINE_FOLDERS[@]}"; do
        if [[ ! -d $folder ]]; then
            mkdir -p "$folder"
            state_set made_folder "$folder"
        fi
    done
}

namespace_file() { : >"$1"; }

# Innermost first.
lab_mounts() {
    awk -v dir="$LAB_DIR" '$5 == dir || index($5, dir "/") == 1 { print $5 }' /proc/self/mountinfo | tac
}

lab_destroy() {
    local mounts folder made=''
    [[ ! -r $LAB_DIR/state ]] || made=$(state_get made_folder)
    processes_kill
    # From inside out, and again, since one place may be mounted on more than once.
    while mounts=$(lab_mounts) && [[ -n $mounts ]]; do
        # Lazily where somebody's shell stands in the folder: it is out of the tree at once all the same.
        xargs -n 1 umount <<<"$mounts" 2>/dev/null || xargs -n 1 umount -l <<<"$(lab_mounts)" ||
            die 1 "cannot unmount what is left under $LAB_DIR"
    done
    folder_clear
    [[ ! -d $LAB_DIR ]] || rmdir --ignore-fail-on-non-empty "$LAB_DIR"
    cgroup_remove
    for folder in $made; do
        rmdir --ignore-fail-on-non-empty "$folder" 2>/dev/null || true
    done
}

# Only what carries the lab's mark is ever deleted.
folder_clear() {
    [[ -e $LAB_DIR/$LAB_MARKER ]] || return 0
    find "$LAB_DIR" -xdev -mindepth 1 -delete
}

# --- control groups ---------------------------------------------------------------------------------------

# The one hierarchy whose groups say which processes are the lab's: v2, or on v1 any that is mounted.
cgroup_hierarchy() {
    awk '$3 == "cgroup2" && $2 == "/sys/fs/cgroup" { print $2; found = 1; exit }
         $3 == "cgroup" && ("," $4 ",") ~ /,(pids|freezer|memory|cpu),/ { any = any ? any : $2 }
         $3 == "cgroup" && ("," $4 ",") ~ /,pids,/ { pids = $2 }
         END { if (!found) print pids ? pids : any }' /proc/mounts
}

cgroup_create() {
    local hierarchy
    hierarchy=$(cgroup_hierarchy)
    [[ -n $hierarchy ]] || die 1 "no control groups are mounted under /sys/fs/cgroup; engines need them"
    mkdir -p "$hierarchy/$LAB_ID"
}

# The calling shell, so that whatever it becomes is in the group from its first moment.
cgroup_enter() {
    local folder
    folder=$(cgroup_hierarchy)/$LAB_ID/$1
    mkdir -p "$folder"
    echo "$BASHPID" >"$folder/cgroup.procs"
}

# All groups of the lab in all hierarchies, parents before children.
cgroup_folders() {
    local mount
    awk '$3 == "cgroup" || $3 == "cgroup2" { print $2 }' /proc/mounts | while read -r mount; do
        [[ ! -d $mount/$LAB_ID ]] || find "$mount/$LAB_ID" -type d 2>/dev/null || true
    done
}

lab_processes() {
    local folder
    cgroup_folders | while read -r folder; do
        cat "$folder/cgroup.procs" 2>/dev/null || true
    done | sort -un
}

# Without mercy: their state is about to be thrown away, and a polite end would take each engine ten seconds
# for its containers. The kernel takes namespaces, overlay mounts and interfaces away with the last process.
processes_kill() {
    [[ -n $(lab_processes) ]] || return 0
    wait_until "$LAB_STOP_SECONDS" "the lab's processes to end" processes_gone ||
        die 4 "still there: $(lab_processes | xargs)"
}

processes_gone() {
    local pids
    mapfile -t pids < <(lab_processes)
    ((${#pids[@]})) || return 0
    kill -KILL "${pids[@]}" 2>/dev/null || true
    return 1
}

cgroup_remove() {
    [[ -n $(cgroup_folders) ]] || return 0
    wait_until "$LAB_STOP_SECONDS" "the lab's control groups to go" cgroups_removed
}

# A group is busy for a moment after its last process ended.
cgroups_removed() {
    local folder
    while read -r folder; do
        rmdir "$folder" 2>/dev/null || true
    done < <(cgroup_folders | tac)
    [[ -z $(cgroup_folders) ]]
}
