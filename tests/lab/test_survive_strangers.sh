#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Strangers disturb a training: an agent with another key, one with another cluster's name, other protocol versions, a port
# scanner, random bytes, and connections that are left half open. Nobody of them gets in, no worker is lost, the result is
# that of an undisturbed run, and steps take as long as without them.
set -euo pipefail
# The suite has minutes: this one belongs to the long campaign.
if [[ -z ${MUSTER_TEST_LONG:-} ]]; then echo "skipped: scripts/test.sh --long runs it" && exit 77; fi
readonly phase_steps=120
epochs=40 steps=25
# shellcheck source=tests/lab/survive.sh
source "$(dirname "$0")/survive.sh"

readonly subnet=10.60.8.0/24
# Registered first, so that it comes last: the stack must be gone before.
at_end 'docker network rm nuisance >/dev/null 2>&1; docker secret rm nuisance_key >/dev/null 2>&1'
survive_test guarded

step "a network with strangers on it"
head -c 32 /dev/urandom >"$test_folder/key"
head -c 32 /dev/urandom >"$test_folder/other_key"
chmod 444 "$test_folder/key" "$test_folder/other_key"
chmod 755 "$test_folder"
docker network create -d overlay --attachable --subnet "$subnet" nuisance >/dev/null
docker secret create nuisance_key "$test_folder/key" >/dev/null
# stranger NODE NAME ARGUMENTS...: a container on the network
stranger() {
    at_end "docker_at $1 rm -f -v $2 >/dev/null 2>&1"
    run 30 "$docker_program" -H "unix://$(node_socket "$1")" run -d --name "$2" --network nuisance "${@:3}"
    expect_status 0
}
intruder() {
    local node=$1 name=$2 key=$3 cluster=$4
    stranger "$node" "$name" -v "$test_folder/$key:/key:ro" "$MUSTER_IMAGE" muster-agent train --key-file /key --cluster "$cluster" \
        --workers 3 --wait 20m --subnet "$subnet" --model /usr/share/muster/models/mnist-cnn.json \
        --data /usr/share/muster/data/mnist --out /runs --epochs "$epochs" --steps "$steps" --batch 8
}
tiny_image "$(node_socket node2)" muster-test-tiny
stranger node2 guarded-street muster-test-tiny "$(type -P sleep)" 3600
street_pid=$(docker_at node2 inspect --format '{{.State.Pid}}' guarded-street)

step "a training"
# shellcheck disable=SC2016 # the stack file's variables
sed -e '/^networks:/,/^$/c networks: {training: {external: true, name: nuisance}}\n' \
    -e 's/^\( *MUSTER_CLUSTER:\).*/\1 street/' -e 's/^\( *name:\) .*_muster_key/\1 nuisance_key/' \
    -e "s|\.\./\.\./trainer|$source_root/trainer|" "$stacks/workload1.yml" >"$test_folder/street.yml"
survive_file=$test_folder/street.yml
survive_begin guarded -e "MUSTER_SUBNET=$subnet" -e MUSTER_STEP_LOG=true
await_view guarded 3
addresses=()
for each in w1.1 w2.1 w3.1; do
    container_of_slot guarded "$each" || fail "no container of $each"
    addresses+=("$(docker_at "$node" inspect --format '{{.NetworkSettings.Networks.nuisance.IPAddress}}' "$container")")
done
expect_equal "${#addresses[@]}" 3 "addresses of workers"

reached() { (($(steps_done guarded) >= $1)); }

phases=()
phase() {
    local first
    first=$(steps_done guarded)
    # What is told is up to a second old; a few steps lie between the phases.
    wait_until 300 "$phase_steps steps ($1)" reached $((first + phase_steps)) || { output_of guarded && fail "the training stands"; }
    phases+=("$((first + 15)):$((first + phase_steps - 5)):$1")
}

step "quiet and attacked in turn"
phase quiet
for round in 1 2; do
    for mode in scan garbage version stall syn; do
        begin "$mode" nsenter --net="/proc/$street_pid/ns/net" python3 "$source_root/tests/lab/attacker.py" "$mode" "${addresses[@]}"
        await_output "$mode" 10 begun
    done
    intruder node1 "guarded-thief-$round" other_key street
    intruder node3 "guarded-neighbour-$round" key avenue
    phase attacked
    end_processes_of scan garbage version stall syn
    docker_at node1 rm -f -v "guarded-thief-$round" >/dev/null
    output=$(docker_at node3 logs "guarded-neighbour-$round" 2>&1)
    expect_no_line '"event":"view"'
    docker_at node3 rm -f -v "guarded-neighbour-$round" >/dev/null
    phase quiet
done

step "it finishes, with the undisturbed run's result and the same three workers"
survive_finish guarded 900
expect_equal "$(run_value 'len(run["recoveries"])')" 0 "changes of the view"
expect_equal "$(run_value 'len(run["members"])')" 3 members
run 30 python3 "$source_root/tests/lab/check_rate.py" "$(run_folder)" "${phases[@]}"
say "$output"
expect_status 0
