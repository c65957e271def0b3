#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What muster compare sees of an agent: events, a history, an end. Files in FAKE_CONTROL, a variable of the stack, make
# it misbehave: "hang-SLOT" once, until it is ended; "fail-SLOT" once.
set -euo pipefail

event() { printf '{"event":"%s","t":%s,"slot":"%s"%s}\n' "$1" "$EPOCHREALTIME" "$MUSTER_SLOT" "${2:-}"; }

if [[ $1 == --version ]]; then
    echo "muster-agent ${FAKE_VERSION:-0.1.0}"
    exit
fi

# The key came by no argument and no variable, and is nobody else's to read.
[[ $(stat -c '%s %a' "$MUSTER_KEY_FILE") == "32 600" ]] || { echo "the key is not as it should be" >&2; exit 2; }
[[ -s $MUSTER_MODEL && -s $MUSTER_DATA/train.csv ]] || { echo "no model or no data" >&2; exit 2; }

rank=$((MUSTER_SLOT_NUMBER - 1))
event start ',"version":"0.1.0","cluster":"c","workers":2,"pid_age_ms":1'
event view ",\"view\":1,\"rank\":$rank,\"world\":2,\"step\":0,\"cause\":\"first\",\"since_start_ms\":5"
if [[ -e $FAKE_CONTROL/fail-$MUSTER_SLOT ]]; then
    rm "$FAKE_CONTROL/fail-$MUSTER_SLOT"
    event failed ',"reason":"the disk is full"'
    exit 1
fi
if [[ -e $FAKE_CONTROL/hang-$MUSTER_SLOT ]]; then
    rm "$FAKE_CONTROL/hang-$MUSTER_SLOT"
    trap 'echo ended >"$FAKE_CONTROL/stopped"; exit 0' TERM
    echo $$ >"$FAKE_CONTROL/hung"
    mkfifo "$MUSTER_OUT/never"
    # A minute at most, in which nobody writes to it.
    read -r -t 60 _ <>"$MUSTER_OUT/never" || true
    exit 1
fi
event first_step ',"since_start_ms":10,"step":1'
event epoch ",\"view\":1,\"rank\":$rank,\"epoch\":1,\"epochs\":1,\"steps\":5,\"seconds\":0.05,\"ms_per_step\":10,"\
'"loss":1,'\
'"accuracy":0.5,"wait_ms":1,"transfer_ms":1,"compute_ms":8,"bytes_sent":100'
echo "slot,rank" >"$MUSTER_OUT/history-$MUSTER_SLOT.csv"
echo "a model" >"$MUSTER_OUT/model.safetensors"
event 'done' ',"seconds":0.05,"epochs":1,"steps":5,"digest":"abcd","loss":1,"accuracy":0.5'
