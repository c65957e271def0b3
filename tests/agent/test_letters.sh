#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The letters, from CSV: train with early stopping, predict, go on from the saved model, and refuse what does not fit.
# shellcheck source=alone.sh
. "$(dirname "$0")/alone.sh"

data="$source_dir/data/letters"
cat >"$work/model.json" <<'JSON'
{"name": "letters", "input": [16], "loss": "softmax_cross_entropy",
 "layers": [{"type": "dense", "units": 64, "activation": "relu"}, {"type": "dense", "units": 26}]}
JSON

# A learning rate with which the loss soon goes up and down.
train first --model "$work/model.json" --data "$data" --epochs 40 --steps 60 --lr 0.2 --momentum 0.9 \
    --validation 0.1 --patience 2
epochs=$(field first done epochs)
holds "$epochs" '<' 40 "epochs of a training that should end early"
[ "$(field first validation stops)" = true ] || fail "the last validation does not say that training ends"
[ "$(field first validation images)" = 1600 ] || fail "a tenth of 16,000 is not $(field first validation images)"
[ "$(field first validation best_epoch)" = $((epochs - 2)) ] || fail "it did not end two epochs after the best one"
for text in "stopped after epoch $epochs/40: no better validation loss in 2 epochs" \
    "epoch $((epochs - 2)) was the best in validation: its parameters are in $work/first/model-best.safetensors; those in model.safetensors, and the test, are of the last epoch"; do
    grep -qF "$text" "$work/first.err" || fail "nobody is told '$text'"
done
[ -s "$work/first/model-best.safetensors" ] || fail "no model-best.safetensors"
holds "$(field first test accuracy)" '>' 0.6 "accuracy"

# predict finds what the training found, in the table, as JSON, and row by row.
predict=(predict --model "$work/model.json" --weights "$work/first/model.safetensors")
"$MUSTER_AGENT" "${predict[@]}" --data "$data" --out "$work/rows.csv" >"$work/table"
accuracy=$(field first test accuracy)
grep -q "^accuracy: $(printf %.4f "$accuracy")" "$work/table" || fail "predict says $(grep accuracy "$work/table"), not $accuracy"
[ "$(wc -l <"$work/rows.csv")" -eq 4001 ] || fail "not a header and 4,000 rows"
right=$(awk -F, 'NR > 1 && $2 == $3' "$work/rows.csv" | wc -l)
[ "$("$MUSTER_AGENT" "${predict[@]}" --data "$data" --format json | jq ".accuracy * 4000 | round")" = "$right" ] ||
    fail "the rows have $right right ones"

# Other rows of the same kind, without labels for one, are made as those that trained.
mkdir "$work/new"
echo '{"format": "csv", "test": "new.csv", "header": false, "label": 0}' >"$work/new/dataset.json"
sed -n 16001,16100p "$data/letter-recognition.data" >"$work/new/new.csv"
"$MUSTER_AGENT" "${predict[@]}" --data "$work/new" --out "$work/new.rows" >/dev/null
cmp "$work/new.rows" <(head -n 101 "$work/rows.csv") || fail "the same rows are labelled in another way"

# Fine-tuning begins where the first one ended.
train tuned --model "$work/model.json" --data "$data" --epochs 1 --steps 20 --lr 0.01 --init "$work/first/model.safetensors"
holds "$(field tuned epoch loss)" '<' 1.2 "loss of an epoch that began with a trained model"

sed 's/64/65/' "$work/model.json" >"$work/other.json"
refused "tensor 'dense_1.weight': its shape is not the model's" train --model "$work/other.json" --data "$data" \
    --init "$work/first/model.safetensors" --out "$work/x"
refused "option '--patience' needs '--validation'" train --model "$work/model.json" --data "$data" --patience 1
refused "model 'letters' takes 16, the training data is 28 x 28 x 1" "${predict[@]}" --data "$source_dir/data/mnist"
head -c 2000 "$work/first/model.safetensors" >"$work/cut.safetensors"
refused "cut.safetensors" predict --model "$work/model.json" --weights "$work/cut.safetensors" --data "$data"
mkdir "$work/bad"
for fault in 'A,1,2:3 fields' "$(head -n 1 "$data/letter-recognition.data" | sed 's/,8,/,x,/'):is not a finite number"; do
    { head -n 3 "$data/letter-recognition.data"; echo "${fault%%:*}"; } >"$work/bad/rows.csv"
    echo '{"format": "csv", "train": "rows.csv", "header": false, "label": 0}' >"$work/bad/dataset.json"
    refused "rows.csv:4: " train --model "$work/model.json" --data "$work/bad"
    refused "${fault##*:}" train --model "$work/model.json" --data "$work/bad"
done
echo "letters: accuracy $accuracy after $epochs epochs"
