#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The lab comes up and goes away without a trace: run twice, after crashes, and with somebody else's things around.
set -euo pipefail
# shellcheck source=tests/lab/lib.sh
source "$(dirname "$0")/lib.sh"

lab_test
lab_own_folder
unset MUSTER_DOCKER

group=muster-lab-$(cksum <<<"$MUSTER_LAB_DIR" | awk '{ printf "%08x", $1 }')

# What the machine shows outside of the lab.
machine() {
    ip -o link | cut -d: -f2 | sort
    iptables-save 2>/dev/null | grep -v '^#' | sed 's/ \[.*//' || true
}

# An engine's folders in their usual places. Another lab keeps what the first one made there until the last one goes.
machine_folders() {
    ls -d /etc/docker /opt/containerd /run/docker* /run/containerd /run/netns /var/lib/docker /var/lib/containerd 2>/dev/null || true
}
other_lab() { [[ -n $(find /sys/fs/cgroup -maxdepth 2 -name 'muster-lab-*' ! -name "$group") ]]; }

# One line for each thing of the lab that is still there.
traces() {
    local namespaces
    grep -F "$MUSTER_LAB_DIR" /proc/self/mountinfo || true
    find /sys/fs/cgroup -type d -name "$group" 2>/dev/null || true
    [[ ! -e $MUSTER_LAB_DIR ]] || find "$MUSTER_LAB_DIR" -maxdepth 3
    namespaces=$(cat "$test_folder/namespaces" 2>/dev/null || true)
    [[ -z $namespaces ]] || find /proc/[0-9]*/ns -name net -printf '%p %l\n' 2>/dev/null | grep -F "$namespaces" || true
    # An engine names its folder in its arguments; a shim its containerd's, which lies in the node's own /run.
    grep -lsF -e "$MUSTER_LAB_DIR/" /proc/[0-9]*/cmdline 2>/dev/null || true
}

remember_namespaces() {
    find "$MUSTER_LAB_DIR/fabric" "$MUSTER_LAB_DIR"/nodes/*/net -exec stat -Lc 'net:[%i]' {} + >"$test_folder/namespaces"
}

no_trace() {
    [[ -z $(traces) && $(machine) == "$before" ]] || return 1
    [[ -n $shared || $(machine_folders) == "$folders_before" ]] || other_lab
}

expect_no_trace() {
    # Interfaces and namespaces end a moment after the last process in them.
    if ! wait_until 10 "the lab's traces to vanish" no_trace; then
        output=$(traces; diff <(echo "$before"; echo "$folders_before") <(machine; machine_folders) || true)
        fail "the lab left something behind"
    fi
}

slow_ended() { ! grep -qsF -e "$test_folder/slow/awk" /proc/[0-9]*/cmdline; }

before=$(machine) folders_before=$(machine_folders) shared=''
if other_lab; then shared=1; fi

step "bad usage is refused with exit code 2, help is given with 0"
while read -r arguments; do
    # shellcheck disable=SC2086 # words
    run 10 "$lab" $arguments
    expect_status 2
done <<'CASES'

fly
up -n
up -n 0
up -n three
up -n 33
up --managers 4
up sideways
down now
exec node1
shape node1
shape node1 fast
shape node1 -5mbit
cut
heal
load
CASES
for verb in "" up down status env exec load shape cut heal; do
    run 10 "$lab" ${verb:+"$verb"} --help
    expect_status 0
    expect_line '^usage: lab.sh'
done
MUSTER_LAB_DIR=/tmp/$(printf 'x%.0s' {1..90}) run 10 "$lab" status
expect_status 2
expect_line 'under 108 bytes'

step "without a lab: down is content, the others say so"
run 10 "$lab" down
expect_status 0
run 10 "$lab" status
expect_status 1
run 10 "$lab" env
expect_status 1
expect_line 'no lab is up'

step "up gives a Swarm whose nodes are ready, twice is once"
run 60 "$lab" up -n 2
expect_status 0
remember_namespaces
run 10 "$lab" status
expect_status 0
expect_line '^node1 +10\.77\.0\.1 .*Leader +up'
expect_line '^node2 +10\.77\.0\.2 .*Worker +up'
expect_equal "$(awk '/^(NODE|node)/ { print index($0, $NF) }' <<<"$output" | sort -u | wc -l)" 1 "columns of the table"
run 10 "$lab" up -n 2
expect_status 0
expect_line 'already up: 2 nodes'
run 10 "$lab" up -n 3
expect_status 1
expect_line 'take it down first'
eval "$("$lab" env)"
run 10 "$MUSTER_DOCKER" node ls --format '{{.Hostname}} {{.Status}}'
expect_line '^node2 Ready$'
expect_equal "$MUSTER_LAB_NODES" "node1 node2" MUSTER_LAB_NODES
run 10 "$lab" env node9
expect_status 2

step "exec runs in the node, passes arguments, folder and exit code"
run 10 "$lab" exec node2 hostname
expect_equal "$output" node2 "host name"
(cd "$test_folder" && run 10 "$lab" exec node2 pwd && expect_equal "$output" "$test_folder" folder)
# shellcheck disable=SC2016 # for the shell in the node
run 10 "$lab" exec node1 sh -c 'echo "$1"; exit 7' sh 'two  words'
expect_status 7
expect_equal "$output" 'two  words' argument

step "a service on an overlay, a container, a process in a node: down takes all of it"
for node in node1 node2; do tiny_image "$(node_socket $node)" tiny:1; done
run 30 "$MUSTER_DOCKER" network create --driver overlay --subnet 192.168.7.0/24 overlay
expect_status 0
run 60 "$MUSTER_DOCKER" service create --no-resolve-image --mode global --network overlay --endpoint-mode dnsrr \
    --name sleepers tiny:1 sleep 1000
expect_status 0
run 30 "$MUSTER_DOCKER" run -d --name sleeper tiny:1 sleep 1000
expect_status 0
"$lab" exec node2 sleep 1000 &
in_node=$!
run 30 "$lab" down
expect_status 0
code=0
wait "$in_node" || code=$?
expect_equal "$code" 137 "exit code of the process in the node"
expect_no_trace
run 10 "$lab" down
expect_status 0

step "an engine is killed: status tells, up starts afresh"
run 60 "$lab" up -n 2
expect_status 0
remember_namespaces
eval "$("$lab" env)"
tiny_image "$(node_socket node1)" tiny:1
run 30 "$MUSTER_DOCKER" run -d tiny:1 sleep 1000
expect_status 0
output=$(traces) # what is looked for after `down` is really seen before it
for kind in nsfs "/$group" '/ns/net net:' '/cmdline$' '/dockerd.log$'; do expect_line "$kind"; done
kill -KILL "$(<"$MUSTER_LAB_DIR/nodes/node1/dockerd.pid")"
engine_gone() { ! "$lab" status >/dev/null 2>&1; }
wait_until 10 "status to see it" engine_gone
run 10 "$lab" status
expect_line '^node1 +10\.77\.0\.1 +gone'
run 60 "$lab" up -n 2
expect_status 0
expect_line 'starting afresh'
run 10 "$lab" status
expect_status 0

step "a stale pid file that names somebody else's process: that one stays"
sleep 1000 &
stranger=$!
at_end "kill $stranger 2>/dev/null"
remember_namespaces
kill -KILL "$(<"$MUSTER_LAB_DIR/nodes/node2/dockerd.pid")"
echo "$stranger" >"$MUSTER_LAB_DIR/nodes/node2/dockerd.pid"
run 10 "$lab" status
expect_status 1
run 30 "$lab" down
expect_status 0
kill -0 "$stranger" || fail "down killed a stranger"
expect_no_trace

step "the script is killed half-way, at several places"
: >"$test_folder/namespaces"
reached() { [[ -e $MUSTER_LAB_DIR/$place ]]; }
for place in .muster-lab nodes/node2/net nodes/node1/docker.sock nodes/node1/dockerd.pid; do
    "$lab" up -n 2 >/dev/null 2>&1 &
    script=$!
    wait_until 20 "$place" reached
    kill -KILL "$script"
    wait "$script" 2>/dev/null || true
    run 10 "$lab" status
    expect_status 1
    run 60 "$lab" down
    expect_status 0
    expect_no_trace
done

step "the script is interrupted: it clears away what it made"
for place in nodes/node1/net nodes/node2/uts nodes/node1/docker.sock; do
    "$lab" up -n 2 >/dev/null 2>&1 &
    script=$!
    wait_until 20 "$place" reached
    kill -TERM "$script"
    code=0
    wait "$script" || code=$?
    expect_equal "$code" 143 "exit code"
    expect_no_trace
done

step "the same while a daemon is between its fork and its control group"
# Only daemons are without the lock's descriptor: they are held there until all others are done.
mkdir "$test_folder/slow"
printf '#!/bin/sh\n[ -e /proc/self/fd/9 ] || sleep 3\nexec %q "$@"\n' "$(type -P awk)" >"$test_folder/slow/awk"
chmod +x "$test_folder/slow/awk"
for place in registry/log nodes/node1/dockerd.log; do
    PATH=$test_folder/slow:$PATH "$lab" up -n 2 >/dev/null 2>&1 &
    script=$!
    wait_until 20 "$place" reached
    kill -TERM "$script"
    code=0
    wait "$script" || code=$?
    expect_equal "$code" 143 "exit code"
    expect_no_trace
    wait_until 10 "the slow ones to end" slow_ended
    expect_no_trace
done

step "up clears away what an interrupted one left"
"$lab" up -n 2 >/dev/null 2>&1 &
script=$!
place=nodes/node1/docker.sock
wait_until 20 "an engine" reached
kill -KILL "$script"
wait "$script" 2>/dev/null || true
run 90 "$lab" up -n 2
expect_status 0
expect_line 'interrupted'
run 30 "$lab" down
expect_no_trace

step "several managers, state in memory"
MUSTER_LAB_STORAGE=memory run 60 "$lab" up -n 3 --managers 3
expect_status 0
remember_namespaces
run 10 "$lab" status
expect_equal "$(grep -c Reachable <<<"$output")" 2 "further managers"
run 30 "$lab" down
expect_status 0
expect_no_trace

step "a folder with somebody's files is left alone"
mkdir -p "$MUSTER_LAB_DIR"
echo precious >"$MUSTER_LAB_DIR/file"
run 30 "$lab" up -n 1
expect_status 1
expect_line "not a lab's"
run 30 "$lab" down
expect_status 0
expect_equal "$(<"$MUSTER_LAB_DIR/file")" precious "the file"
rm -r "$MUSTER_LAB_DIR"

step "an engine that cannot start: up says why, and leaves nothing"
mkdir "$test_folder/bin"
printf '#!/bin/sh\necho "broken on purpose" >&2\nexit 1\n' >"$test_folder/bin/dockerd"
chmod +x "$test_folder/bin/dockerd"
PATH=$test_folder/bin:$PATH run 60 "$lab" up -n 2
expect_status 1
expect_line 'broken on purpose'
expect_no_trace
