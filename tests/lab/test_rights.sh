#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What the stack's processes may do, seen from the host while they train: no root, no capability, nothing to write to
# but their volumes, no shell. And the key is nowhere but in its file.
set -euo pipefail
# shellcheck source=tests/lab/stack.sh
source "$(dirname "$0")/stack.sh"

stack_test
stack_use rights

step "a training with a key that would be found"
key=muster-test-$(head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n')
printf %s "$key" | docker secret create --label com.docker.stack.namespace=rights rights_muster_key - >/dev/null
begin rights "$muster" run -v -c "$stacks/workload1.yml" -e MUSTER_EPOCHS=100000 -e MUSTER_STEPS=5 -e MUSTER_BATCH=16 \
    -e MUSTER_VERBOSE=true rights
await_output rights 60 '^epoch 2/'
# Swarm serves no logs of a task whose health was not asked yet.
wait_until 30 "seven tasks to run" tasks_running rights 7 || fail "$(docker stack ps rights)"

status_of() { awk -F':[ \t]*' -v key="$1" '$1 == key { print $2 }' "/proc/$pid/status"; }
cd "$test_folder"

for service in w1 w2 w3 collector monitor; do
    step "$service: user, capabilities, root folder, key file, shell"
    container_of rights "$service" || fail "no container of $service"
    expect_equal "$(status_of Uid | xargs) $(status_of Gid | xargs)" \
        "65532 65532 65532 65532 65532 65532 65532 65532" "user and group ids"
    for set in CapInh CapPrm CapEff CapAmb; do
        expect_equal "$(status_of "$set")" 0000000000000000 "$set"
    done
    # What may be had at all: the sweep's raw socket (13), and giving up root (6 and 7).
    bound=00000000000000c0
    if [[ $service == w* ]]; then bound=00000000000020c0; fi
    expect_equal "$(status_of CapBnd)" "$bound" CapBnd
    expect_equal "$(status_of NoNewPrivs)" 1 NoNewPrivs
    expect_equal "$(status_of Seccomp)" 2 Seccomp
    expect_equal "$(awk '$5 == "/" { print $6 }' "/proc/$pid/mountinfo" | grep -o '^r[ow]')" ro "mount of the root folder"
    expect_equal "$(docker_at "$node" inspect --format '{{.HostConfig.ReadonlyRootfs}} {{.HostConfig.Privileged}}' "$container")" \
        "true false" "read-only root, privileged"
    # All threads, those that libraries started before main() too.
    expect_equal "$(cat /proc/"$pid"/task/*/status | grep -cE '^(CapEff|CapPrm):.*[1-9a-f]|^Uid:.*\b0\b')" 0 "threads with rights"
    if [[ $service == monitor ]]; then
        [[ ! -e /proc/$pid/root/run/secrets ]] || fail "the monitor has a key"
    else
        expect_equal "$(stat -c '%u:%g %a %s' "/proc/$pid/root/run/secrets/muster_key")" "65532:65532 400 ${#key}" "the key's file"
    fi
    run 20 "$docker_program" -H "unix://$(node_socket "$node")" exec "$container" sh -c true
    expect_line 'executable file not found'
    tr '\0' '\n' <"/proc/$pid/environ" >>seen
    tr '\0' '\n' <"/proc/$pid/cmdline" >>seen
    docker_at "$node" inspect "$container" >>seen
    docker_at "$node" diff "$container" >>seen
done

step "the key is in no environment, argument, description, log, event or result"
tr '\0' '\n' <"/proc/${pids[rights]}/environ" >>seen
tr '\0' '\n' <"/proc/${pids[rights]}/cmdline" >>seen
for service in w1 w2 w3 collector monitor; do
    docker service inspect "rights_$service" >>seen
    docker service logs --raw "rights_$service" >>seen 2>&1
done
docker stack ps -q rights | xargs "$docker_program" inspect >>seen
docker config inspect rights_model >>seen
docker secret inspect rights_muster_key >>seen
now=$(date +%s)
for node in $MUSTER_LAB_NODES; do
    docker_at "$node" events --since "$((now - 120))" --until "$now" >>seen
done
kill -INT "${pids[rights]}"
finish rights 60
expect_status 130
cat rights.out rights.err "$(run_folder)"/*.{json,csv} >>seen
grep -q '"event":"epoch"' seen || fail "no log was seen"
grep -q 'container start' seen || fail "no engine's event was seen"
for form in "$key" "$(printf %s "$key" | base64 -w 0)" "$(printf %s "$key" | od -An -tx1 | tr -d ' \n')"; do
    if grep -qiF -- "$form" seen; then output=$(grep -iF -- "$form" seen) && fail "the key was seen"; fi
done

expect_stack_gone rights
