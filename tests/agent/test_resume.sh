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

"$MUSTER_AGENT" train --slot cut --out "$work/cut" --state "$work/state" --checkpoint-steps 150 "${options[@]}" \
    >"$work/cut.events" 2>"$work/cut.err" &
pid=$!
deadline=$((SECONDS + 60))
until grep -q '"event":"checkpoint"' "$work/cut.events"; do
    [ "$SECONDS" -lt "$deadline" ] || fail "no checkpoint within 60 s"
    read -r -t 0.01 <> <(:) || true
done
kill -KILL "$pid"
wait "$pid" 2>/dev/null || true
grep -q '"event":"done"' "$work/cut.events" && fail "it was done before it was killed"
train resumed --state "$work/state" --checkpoint-steps 150 "${options[@]}"
step=$(field resumed restored step)
holds "$step" '>' 0 "the step that it was restored to"
for key in digest test_accuracy epochs; do
    [ "$(field whole done $key)" = "$(field resumed done $key)" ] || fail "$key differs"
done
[ "$(field whole validation loss)" = "$(field resumed validation loss)" ] || fail "the last validation differs"
echo "resumed from step $step with the same bits"
