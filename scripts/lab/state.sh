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
    readonly LAB_NODE_MIB=1024 # of disk, for a node's images, volumes and logs
}
# Where engines write, whatever they are told about other places: a key, empty folders, the files of an overlay's
# load-balancer. Each node has its own there.
readonly LAB_ENGINE_FOLDERS=(/etc/docker /opt/containerd /var/lib/docker)

lab_paths() {
    LAB_DIR=$(readlink -m "${MUSTER_LAB_DIR:-/var/lib/muster-lab}")
    local folder
    for folder in /run "${LAB_ENGINE_FOLDERS[@]}"; do
        [[ $LAB_DIR/ != "$folder"/* ]] || die 2 "MUSTER_LAB_DIR=$LAB_DIR: not under $folder, of which each node has its own"
    done
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

# A private mount, so that namespaces can be kept in its files. An image of 100 MB lies in it once for each node and
# once compressed in the registry. On disk where there is room and overlay mounts work: what a container writes to
# a file in memory would count as memory it uses, against its limit and in the monitor's figures, and memory was
# found to be no faster (up in 1.0 to 1.5 s either way, load in 5 s).
folder_create() {
    local nodes=$1 storage=${MUSTER_LAB_STORAGE:-auto}
    if [[ -d $LAB_DIR && -n $(ls -A "$LAB_DIR") ]]; then
        die 1 "$LAB_DIR holds files that are not a lab's"
    fi
    mkdir -p "$LAB_DIR"
    case $storage in
    auto) if disk_fits "$nodes" && overlay_works; then storage=disk; else storage=memory; fi ;;
    memory | disk) ;;
    *) die 2 "MUSTER_LAB_STORAGE=$storage: not memory, disk or auto" ;;
    esac
    if [[ $storage == memory ]]; then
        mount -t tmpfs -o mode=711,size=75% muster-lab "$LAB_DIR"
    else
        : >"$LAB_DIR/$LAB_MARKER"
        mount --bind "$LAB_DIR" "$LAB_DIR"
    fi
    mount --make-private "$LAB_DIR"
    : >"$LAB_DIR/$LAB_MARKER"
    : >"$LAB_DIR/state"
    mkdir -p "$LAB_DIR/docker-config"
    state_set storage "$storage"
}

# The machine may lack a folder that the nodes need to mount over. One that a lab made carries a mark, and the last
# lab on the machine takes it away: to remove it would unmount it in the nodes of all labs. The lock makes "is there
# another lab" and what follows from it one step; our own group says that we are there.
machine_folders_make() {
    local folder
    (
        flock -w "$LAB_LOCK_SECONDS" 8 || die 4 "waited $LAB_LOCK_SECONDS s for another lab.sh"
        cgroup_create
        for folder in "${LAB_ENGINE_FOLDERS[@]}"; do
            if [[ ! -d $folder ]]; then
                mkdir -p "$folder"
                : >"$folder/$LAB_MARKER"
            fi
        done
    ) 8</etc
}

machine_folders_remove() {
    local folder
    (
        flock -w "$LAB_LOCK_SECONDS" 8 || die 4 "waited $LAB_LOCK_SECONDS s for another lab.sh"
        cgroup_remove
        compgen -G "$(cgroup_hierarchy)/muster-lab-*" >/dev/null && exit
        for folder in "${LAB_ENGINE_FOLDERS[@]}"; do
            if [[ -e $folder/$LAB_MARKER ]]; then
                rm "$folder/$LAB_MARKER"
                rmdir --ignore-fail-on-non-empty "$folder"
            fi
        done
    ) 8</etc
}

disk_fits() { (($(df --output=avail -B 1M "$LAB_DIR" | tail -n 1) >= $1 * LAB_NODE_MIB)); }

# Not so where the folder itself lies on an overlay, as in a container, or on a network's file system.
overlay_works() {
    local probe=$LAB_DIR/.probe works=0
    mkdir -p "$probe"/{lower,upper,work,merged}
    unshare --mount mount -t overlay -o "lowerdir=$probe/lower,upperdir=$probe/upper,workdir=$probe/work" \
        muster-probe "$probe/merged" 2>/dev/null || works=1
    rm -rf "$probe"
    return $works
}

namespace_file() { : >"$1"; }

# Innermost first.
lab_mounts() {
    awk -v dir="$LAB_DIR" '$5 == dir || index($5, dir "/") == 1 { print $5 }' /proc/self/mountinfo | tac
}

lab_destroy() {
    local mounts
    processes_kill
    # From inside out, and again, since one place may be mounted on more than once.
    while mounts=$(lab_mounts) && [[ -n $mounts ]]; do
        # Lazily where somebody's shell stands in the folder: it is out of the tree at once all the same.
        xargs -n 1 umount <<<"$mounts" 2>/dev/null || xargs -n 1 umount -l <<<"$(lab_mounts)" ||
            die 1 "cannot unmount what is left under $LAB_DIR"
    done
    folder_clear
    [[ ! -d $LAB_DIR ]] || rmdir --ignore-fail-on-non-empty "$LAB_DIR"
    machine_folders_remove
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

# The folder of the group that this shell is in; the hierarchy's root where that is out of sight, as in a container.
cgroup_own() {
    local hierarchy path
    hierarchy=$(cgroup_hierarchy)
    path=$(awk -F: -v wanted="${hierarchy##*/}" '
        $2 == "" { unified = $3 }
        ("," $2 ",") ~ ("," wanted ",") { own = $3 }
        END { print own ? own : unified }' /proc/self/cgroup)
    if [[ -d $hierarchy$path ]]; then echo "$hierarchy$path"; else echo "$hierarchy"; fi
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
