#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# One subnet, many that answer on it: listeners on the agents' port that are no agents, agents without a key or with
# another, stacks of another name. Every stack trains with its own workers only, and its scan says who else is there.
set -euo pipefail
# shellcheck source=tests/lab/stack.sh
source "$(dirname "$0")/stack.sh"

stack_test
readonly subnet=10.20.30.0/24
at_end 'docker network rm street >/dev/null 2>&1; docker secret rm street_key street_key2 >/dev/null 2>&1'
stack_use one other third

# stranger NODE NAME IMAGE COMMAND...: a container on the network; fills $pid and $address.
stranger() {
    local node=$1 name=$2
    shift 2
    at_end "docker_at $node rm -f -v $name >/dev/null 2>&1"
    run 30 "$docker_program" -H "unix://$(node_socket "$node")" run -d --name "$name" --network street "$@"
    expect_status 0
    read -r pid address < <(docker_at "$node" inspect --format '{{.State.Pid}} {{.NetworkSettings.Networks.street.IPAddress}}' "$name")
    strangers+=("$address")
}

step "a network with four that are not welcome"
docker network create -d overlay --attachable --subnet "$subnet" street >/dev/null
head -c 32 /dev/urandom | docker secret create street_key - >/dev/null
head -c 32 /dev/urandom | docker secret create street_key2 - >/dev/null
strangers=()
for pair in node2:silent node3:talking; do
    tiny_image "$(node_socket "${pair%:*}")" muster-test-tiny
    stranger "${pair%:*}" "street-${pair#*:}" muster-test-tiny "$(type -P sleep)" 600
    begin "${pair#*:}" nsenter --net="/proc/$pid/ns/net" python3 "$source_root/tests/lab/stranger.py" "${pair#*:}" 7070
    await_output "${pair#*:}" 10 listening
done
# They know the cluster's name, but not its key.
stranger node1 street-thief "$MUSTER_IMAGE" muster-agent collect --insecure --cluster street --subnet "$subnet" --out /runs
stranger node2 street-intruder "$MUSTER_IMAGE" muster-agent train --insecure --cluster street --workers 2 --wait 100s \
    --subnet "$subnet" --model /usr/share/muster/models/mnist-cnn.json --data /usr/share/muster/data/mnist --out /runs

step "three stacks at once: one name with two keys, one key with two names"
# shellcheck disable=SC2016 # the stack file's variables
sed -e '/^networks:/,/^$/c networks: {training: {external: true, name: street}}\n' \
    -e 's/^\( *MUSTER_CLUSTER:\).*/\1 ${CLUSTER}/' -e 's/^\( *name:\) .*_muster_key/\1 ${KEY}/' \
    "$stacks/workload1.yml" >"$test_folder/street.yml"
cp -r "$source_root/trainer/models/mnist-cnn.json" "$test_folder/"
run_on_street() {
    begin "$1" "$muster" run -c "$test_folder/street.yml" "${short[@]}" -e MUSTER_WORKERS=2 -e "MUSTER_SUBNET=$subnet" \
        -e "MUSTER_MODEL_FILE=$test_folder/mnist-cnn.json" -e "CLUSTER=$2" -e "KEY=$3" "$1"
}
run_on_street one street street_key
run_on_street other street street_key2
run_on_street third avenue street_key
folders=()
for stack in one other third; do
    finish "$stack" 120
    expect_status 0
    expect_line '^2 workers have found each other'
    folders+=("$(run_folder)")
done

step "each has its own members; strangers are seen and not named"
python=$(numpy_python)
for folder in "${folders[@]}"; do
    run 30 "$python" "$source_root/tests/lab/check_run_folder.py" "$folder" "${folder##*-}" 2 1 5
    expect_status 0
    for address in "${strangers[@]}"; do
        for xml in "$folder"/ips-*.xml; do
            run 10 "$python" -c 'import sys, xml.etree.ElementTree as tree
for host in tree.parse(sys.argv[1]).getroot().findall("host"):
    if host.find("address").get("addr") == sys.argv[2]:
        print("seen", *(port.get("portid") + port.find("state").get("state") for port in host.findall("ports/port")))' \
                "$xml" "$address"
            expect_line '^seen'
        done
    done
done

step "and strangers got nothing"
run 10 "$docker_program" logs street-thief
expect_line '"event":"listening"'
expect_no_line '"event":"collected"'
expect_equal "$(docker cp street-thief:/runs - | tar -tf - | grep -v '/$')" "" "files of the collector without a key"
run 10 "$docker_program" -H "unix://$(node_socket node2)" logs street-intruder
expect_line '"event":"waiting"'
expect_no_line '"event":"(view|first_step)"'

for stack in one other third; do expect_stack_gone "$stack"; done
