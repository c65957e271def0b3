#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# muster-launch where there is nothing else: file systems with itself, a busybox and a key, each in namespaces of its own,
# where it is PID 1. One worker of the three is muster-agent, in a system as usual.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

: "${MUSTER_LAUNCH:?path of the muster-launch to test}"
need_command busybox busybox-static
busybox=$(command -v busybox)
if ldd "$busybox" >/dev/null 2>&1; then
    need_command a-static-busybox busybox-static # says so, and skips
fi
[ "$(stat -c %s "$MUSTER_LAUNCH")" -le $((6 * 1024 * 1024)) ] || fail "muster-launch has more than 6 MiB"
ldd "$MUSTER_LAUNCH" >/dev/null 2>&1 && ldd "$MUSTER_LAUNCH" | grep -q "=>" && fail "muster-launch wants libraries"
namespaces 3
make_key

# image I: the folder of worker I's system
image() {
    local root=$work/root$1
    mkdir -p "$root"/{bin,proc,tmp,run/secrets,dev}
    cp "$busybox" "$root/bin/busybox"
    for name in sh cat sleep echo ps grep id; do
        ln -s busybox "$root/bin/$name"
    done
    cp "$MUSTER_LAUNCH" "$root/launch"
    cp "$work/key" "$root/run/secrets/muster_key"
    mknod "$root/dev/null" c 1 3
    echo "$root"
}

# contained I OPTIONS... -- CMD...: muster-launch exec as PID 1 in its own system
contained() {
    local i=$1 root
    shift
    root=$(image "$i" 2>/dev/null) || root=$work/root$i
    exec ip netns exec "$prefix-$i" unshare --pid --fork --mount-proc="$root/proc" chroot "$root" /launch exec \
        --slot "w$i" --subnet 10.99.0.0/24 "$@" >>"$work/w$i.out" 2>>"$work/w$i.err" &
    last_pid=$!
    pids+=("$last_pid")
}

# shellcheck disable=SC2016
program='echo "rank $MUSTER_RANK of $MUSTER_WORLD in $(cat "$MUSTER_HOSTFILE" | grep -c slots)"'
common=(--workers 3 --framework torch,env --user none)
export MUSTER_KEY_FILE=/run/secrets/muster_key
workers=()
contained 2 "${common[@]}" -- sh -c "$program"
workers+=("$last_pid")
contained 3 "${common[@]}" -- sh -c "$program"
workers+=("$last_pid")
exec_worker 1 "${common[@]}" -- sh -c "$program"
workers+=("$last_pid")
all_end 40 0 "${workers[@]}"
for i in 1 2 3; do
    says "w$i.out" "rank $((i - 1)) of 3 in 3"
done
grep -q CAP_NET_RAW "$work"/w?.err && fail "it asks for a right that it has no use for"
[ -z "$(ls -A "$work/root2/tmp")" ] || fail "something is left in /tmp: $(ls "$work/root2/tmp")"

# PID 1 waits for whatever loses its parent; the program's own user is the one that was there, the network part's is not.
# shellcheck disable=SC2016
contained 2 --standalone --user 65532 -- sh -c \
    '(sleep 0.2 & ) ; sleep 0.6; echo "zombies $(ps -o stat | grep -c Z)"; echo "uid $(id -u)"; ps -o pid,user,args; exit 5'
all_end 20 5 "$last_pid"
says w2.out "zombies 0" "uid 0"
grep -q "65532.*launch exec" "$work/w2.out" || fail "the network part kept its rights"

# scan and health.
contained 3 --workers 2 --user none --wait 20s -- sh -c 'exit 0'
waiting=$last_pid
wait_for 20 "$work/w3.err" '"event":"start".*"workers":2'
inside 1 "$MUSTER_LAUNCH" scan --subnet 10.99.0.0/24 --key-file "$work/key" --user none >"$work/scan.txt" 2>/dev/null ||
    fail "scan failed"
grep "^10.99.0.3 " "$work/scan.txt" | grep -w w3 | grep -qw worker || fail "scan did not find the worker: $(cat "$work/scan.txt")"
inside 3 "$MUSTER_LAUNCH" health | grep -q '"state":"forming"' || fail "health does not tell the state"
inside 1 "$MUSTER_LAUNCH" health 2>/dev/null && fail "health said well where no agent is"
inside 1 "$MUSTER_LAUNCH" scan --help | grep -q "ips.xml is muster-agent's" || fail "--help does not tell of ips.xml"
kill_all 3 TERM # unshare itself does not pass it on
must_end "$waiting" 10 143 "a worker that was told to go"
echo "ran with nothing but itself, $(stat -c %s "$MUSTER_LAUNCH") bytes"
