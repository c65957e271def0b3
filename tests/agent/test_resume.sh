#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A training that is killed half-way and started again ends with the bits of one that was not: shuffling, momentum, dropout,
# the epoch's sums and what is known of the validation set are all taken up.
# shellcheck source=alone.sh
. "$(dirname "$0")/alone.sh"

cat >"$work/model.json" <<'JSON'
{"name": "letters", "input": [16], "loss": "softmax_cross_entropy",
 "layers": [{"type": "dense", "units": 64, "activation": "relu"}, {"type": "dropout", "rate": 0.2},
            {"type": "dense", "units": 26}]}
JSON
options=(--model "$work/model.json" --data "$source_dir/data/letters" --epochs 4 --steps 2000 --lr 0.02 --momentum 0.9
    --validation 0.1 --patience 3)
train whole "${options[@]}"

# end NAME EVENT SIGNAL STATUS ARGS...: the same, ended by the signal once there is such an event
end() {
    local name=$1 event=$2 signal=$3 expected=$4 deadline=$((SECONDS + 60)) pid status=0
    shift 4
    "$MUSTER_AGENT" train --slot "$name" --out "$work/$name" "${options[@]}" "$@" >"$work/$name.events" 2>"$work/$name.err" &
    pid=$!
    until grep -q "\"event\":\"$event\"" "$work/$name.events"; do
        [ "$SECONDS" -lt "$deadline" ] || fail "$name: no event $event within 60 s"
        read -r -t 0.01 <> <(:) || true
    done
    kill "-$signal" "$pid"
    wait "$pid" 2>/dev/null || status=$?
    [ "$status" -eq "$expected" ] || fail "$name: status $status, not $expected"
}

# says NAME TEXT: to people
says() { grep -qF -- "$2" "$work/$1.err" || fail "$1 does not say '$2'"; }

end cut checkpoint KILL 137 --state "$work/state" --checkpoint-steps 150
grep -q '"event":"done"' "$work/cut.events" && fail "it was done before it was killed"
train resumed --state "$work/state" --checkpoint-steps 150 "${options[@]}"
step=$(field resumed restored step)
holds "$step" '>' 0 "the step that it was restored to"
for key in digest test_accuracy epochs; do
    [ "$(field whole done $key)" = "$(field resumed done $key)" ] || fail "$key differs"
done
[ "$(field whole validation loss)" = "$(field resumed validation loss)" ] || fail "the last validation differs"
[ "$(jq -r .event "$work/resumed.events" | head -n 2 | xargs)" = "start restored" ] || fail "not restored after the start"
says resumed "it goes on at epoch $((step / 2000 + 1))/4, after step $step"

# Told to stop, it has left, and says what there is to go on from.
end told checkpoint INT 130 --state "$work/told.state" --checkpoint-steps 150
says told "the same command goes on from the checkpoint of step $(find "$work/told.state" -type f -printf '%f\n' | sed -n 's/^checkpoint-0*\([0-9]*\)\.safetensors$/\1/p' | sort -n | tail -n 1) in $work/told.state"
end early first_step TERM 143 --state "$work/early.state" --checkpoint-steps 1000000
says early "before the first checkpoint"
end forgotten first_step TERM 143 --key-file /no/such/key
says forgotten "with option '--state DIR' the same command would go on"
says forgotten "a key (option '--key-file') is of no use"
for name in told early forgotten; do
    [ "$(tail -n 1 "$work/$name.events" | jq -r .event)" = left ] || fail "$name: the last event is not left"
    jq -e -s 'any(.[]; .event == "failed") | not' "$work/$name.events" >/dev/null || fail "$name has failed"
    jq -e -s 'map(select(.event == "view")) | length == 1 and (.[0] | .members == [{slot: .slot}])' "$work/$name.events" >/dev/null || fail "$name has an address"
done
echo "resumed from step $step with the same bits"
