# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# What tests of the deployer alone need: no training, an image that does nothing. A test sources this file and then says
#
#     deploy_test NAME...     # the lab, $muster, the image muster-test/tiny:1 on each node, the test's stacks, its folder
#     deploy_stack >stack.yml # two services on two networks and one on each node, with a secret and a config
#
# shellcheck source=tests/lab/stack.sh
source "$(dirname "${BASH_SOURCE[0]}")/stack.sh"

# shellcheck disable=SC2034 # for the tests
deploy_test() {
    lab_test
    # shellcheck disable=SC2119 # no options of its own
    lab_use
    docker_program=$MUSTER_DOCKER
    export DOCKER_CONFIG=$test_folder/docker-config
    mkdir -p "$DOCKER_CONFIG"
    at_end end_processes
    stack_use "$@"
    local node
    for node in $MUSTER_LAB_NODES; do tiny_image "$(node_socket "$node")" muster-test/tiny:1; done
    cd "$test_folder"
    deploy=("$muster" deploy --resolve-image never --timeout 60s)
    echo layers >model
    echo one >key
}

deploy_stack() {
    cat <<'YML'
services:
  a: &service
    image: muster-test/tiny:1
    command: [sleep, "1000"]
    stop_signal: SIGKILL
    secrets: [key]
    configs: [model]
    networks: [inner]
    deploy: {replicas: 2}
  b: {<<: *service, deploy: {mode: global}}
  c: {<<: *service, networks: [outer]}
networks:
  inner: {ipam: {config: [{subnet: 10.71.0.0/24}]}}
  outer: {}
secrets: {key: {file: ./key}}
configs: {model: {file: ./model}}
YML
}
