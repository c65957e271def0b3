# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Workers of the verb exec in network namespaces, on top of tests/agent/lib.sh.
# shellcheck source=../agent/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../agent/lib.sh"

export MUSTER_WAIT=30s MUSTER_USER=none MUSTER_EVENTS=stderr

# need_command NAME PACKAGE: skip without it, but not in CI
need_command() {
    command -v "$1" >/dev/null && return
    if [ -n "${CI:-}" ]; then
        fail "$1 is missing (Debian: $2), and CI is set"
    fi
    echo "skipped: $1 is missing (Debian: $2)"
    exit 77
}

# need_python MODULE PACKAGE: the same for a module of Debian's own python
need_python() {
    /usr/bin/python3 -c "import $1" 2>/dev/null && return
    if [ -n "${CI:-}" ]; then
        fail "python3 has no $1 (Debian: $2), and CI is set"
    fi
    echo "skipped: python3 has no $1 (Debian: $2)"
    exit 77
}

# exec_worker I OPTIONS... -- CMD...: worker wI in namespace I, on a host of that name, which resolves nowhere; CMD's
# output in $work/wI.out, events and messages in wI.err
exec_worker() {
    local i=$1
    shift
    # shellcheck disable=SC2016 # for the inner shell
    exec ip netns exec "$prefix-$i" unshare --uts sh -c 'hostname "$0"; exec "$@"' "w$i" "$MUSTER_AGENT" exec \
        --slot "w$i" --subnet 10.99.0.0/24 --key-file "$work/key" "$@" >>"$work/w$i.out" 2>>"$work/w$i.err" &
    last_pid=$!
    pids+=("$last_pid")
}

# all_end SECONDS STATUS PID...: each of them ends so
all_end() {
    local seconds=$1 wanted=$2 pid
    shift 2
    for pid in "$@"; do
        must_end "$pid" "$seconds" "$wanted" "process $pid"
    done
}

# kill_all I [SIGNAL]: everything in namespace I, as if its container were killed; some of it may just have ended
kill_all() {
    ip netns pids "$prefix-$1" | xargs -r kill "-${2:-KILL}" 2>/dev/null || true
}

# says FILE TEXT...: each of the texts is a line of the file
says() {
    local file=$1 text
    shift
    for text in "$@"; do
        grep -qxF -- "$text" "$work/$file" || fail "$file does not say '$text'"
    done
}

# told FILE EVENT KEY TEXT: as has_event, among whatever else a program writes there
told() {
    grep '^{"event"' "$1" >"$work/events" || true
    has_event "$work/events" "$2" "$3" "$4"
}

# nothing_left PATTERN: no process of that command line is left in this test's namespaces
nothing_left() {
    local pid
    for pid in $(pgrep -f -- "$1"); do
        [ "$pid" -eq $$ ] || ! ip netns identify "$pid" 2>/dev/null | grep -q "^$prefix-" ||
            fail "process $pid is left: $(tr '\0' ' ' <"/proc/$pid/cmdline")"
    done
}
