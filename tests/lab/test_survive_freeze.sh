#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A worker is frozen for three seconds while it trains, the chief too: the others give it up and go on; when it wakes it
# writes nothing into their view, and joins them again.
set -euo pipefail
# shellcheck source=tests/lab/survive.sh
source "$(dirname "$0")/survive.sh"

survive_test freeze

step "a training"
survive_begin freeze -e MUSTER_SUBNET=10.60.4.0/24
lost=()
for rank in 1 0; do
    rank_of "$rank" freeze
    step "rank $rank, $slot on $node, is frozen for 3 s"
    frozen=$pid
    at_end "kill -CONT $frozen 2>/dev/null"
    kill -STOP "$frozen"
    sleep 3
    kill -CONT "$frozen"
    lost+=("$slot")
    wait_until 30 "the loss of $slot to be told" grep -qE "^$slot lost: " "$test_folder/freeze.err" ||
        { output_of freeze && fail "nobody lost $slot"; }
    await_view freeze 3
    # It kept its process, or ended and was started again: either is fine, but it must be one of them.
    container_of_slot freeze "$slot" || fail "$slot is gone"
done

step "it finishes, with the undisturbed run's result"
survive_finish freeze 600 "${lost[@]}"
python3 - "$(run_folder)/run.json" <<'CHECK'
import json, sys
losses = [r for r in json.load(open(sys.argv[1]))["recoveries"] if r["lost"]]
assert any(r["detected_ms"] > 0 for r in losses), f"no loss was noticed by silence: {losses}"
CHECK
