#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A node's link is cut while it trains, and healed; then its engine is restarted. The workers on the other nodes go on,
# the one that was away joins them again, and the result is that of an undisturbed run.
set -euo pipefail
# The suite has minutes: this one belongs to the long campaign.
if [[ -z ${MUSTER_TEST_LONG:-} ]]; then echo "skipped: scripts/test.sh --long runs it" && exit 77; fi
# shellcheck source=tests/lab/survive.sh
source "$(dirname "$0")/survive.sh"

survive_test cut engine

engine_answers() { docker_at "$1" version >/dev/null 2>&1; }

# engine_restart NODE: as `systemctl restart docker` does it.
engine_restart() {
    local folder=$MUSTER_LAB_DIR/nodes/$1 old
    old=$(<"$folder/dockerd.pid")
    kill -TERM "$old"
    # shellcheck disable=SC2016
    wait_until 40 "the engine of $1 to end" bash -c '! kill -0 "$0" 2>/dev/null' "$old"
    (
        # shellcheck source=scripts/lab/state.sh
        source "$source_root/scripts/lab/state.sh"
        lab_paths
        cgroup_enter "$1/engine"
        exec setsid nsenter --net="$folder/net" --uts="$folder/uts" --mount="$folder/mnt" \
            "$source_root/scripts/lab/node.sh" engine "$folder/daemon.json"
    ) </dev/null >>"$folder/dockerd.log" 2>&1 &
    disown
    wait_until 30 "the engine of $1 to answer" engine_answers "$1"
}

step "a training"
survive_begin cut -e MUSTER_SUBNET=10.60.5.0/24

step "node2 is cut off"
at_end "$(printf %q "$lab") heal node2 >/dev/null 2>&1"
"$lab" cut node2
wait_until 40 "the loss of w2.1 to be told" grep -qE '^w2\.1 lost: ' "$test_folder/cut.err" || { output_of cut && fail "nobody lost w2.1"; }
wait_until 40 "the others to train again" grep -qE '2 workers, w2\.1 lost; training again' "$test_folder/cut.err" ||
    { output_of cut && fail "the others did not go on"; }

step "and healed"
"$lab" heal node2
await_view cut 3 90
survive_finish cut 600 w2.1

step "another training, and node3's engine is restarted"
survive_begin engine -e MUSTER_SUBNET=10.60.6.0/24
engine_restart node3
wait_until 60 "the others to train without w3.1" grep -qE '2 workers, w3\.1 (lost|left); training again' "$test_folder/engine.err" ||
    { output_of engine && fail "the others did not go on"; }
await_view engine 3 120
survive_finish engine 600
