#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Removals and deployments back to back: whatever the removal left, the next deployment comes up.
set -euo pipefail
if [[ -z ${MUSTER_TEST_LONG:-} ]]; then echo "skipped: scripts/test.sh --long runs it" && exit 77; fi
# shellcheck source=tests/lab/stack.sh
source "$(dirname "$0")/stack.sh"

lab_test
lab_use
docker_program=$MUSTER_DOCKER
export DOCKER_CONFIG=$test_folder/docker-config
mkdir -p "$DOCKER_CONFIG"
at_end end_processes
stack_use again
for node in $MUSTER_LAB_NODES; do tiny_image "$(node_socket "$node")" muster-test/tiny:1; done
cd "$test_folder"
rounds=20
deploy=("$muster" deploy --resolve-image never --timeout 60s)

echo layers >model
echo one >key
cat >stack.yml <<'YML'
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

step "rm and deploy back to back, $rounds times"
begun=$(now_ms)
for ((i = 1; i <= rounds; i++)); do
    run 60 "${deploy[@]}" -c stack.yml again
    expect_status 0
    run 60 "$muster" rm again
    expect_status 0
    expect_equal "$(stack_objects again)" "" "left of the stack in round $i"
done
say "$rounds rounds in $((($(now_ms) - begun) / 1000)) s"
