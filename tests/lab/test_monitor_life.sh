#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The exporter, by each of its sources, beside containers that are started, renamed, paused, restarted, stopped, killed,
# killed for want of memory, and whose engine is killed and started again: see monitor_life.py.
# shellcheck disable=SC2119
source "$(dirname "$0")/lib.sh"
# shellcheck source=tests/lab/monitor.sh
source "$(dirname "$0")/monitor.sh"

lab_test
lab_own_folder # its engine is killed
run 60 "$lab" up -n 1
expect_status 0
eval "$("$lab" env)"
folder=$MUSTER_LAB_DIR/nodes/node1
small_image "$(node_socket node1)" muster-test-life sh dd sleep

start_engine=("$lab" exec node1 "$source_root/scripts/lab/node.sh" engine "$folder/daemon.json")
python3 "$source_root/tests/lab/monitor_life.py" "$monitor" "$folder/docker.sock" "$folder/dockerd.pid" \
    muster-test-life "$MUSTER_DOCKER" "${start_engine[@]}" || fail "see above"
