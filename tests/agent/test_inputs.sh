#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Files that are no files, in every place where one is read: told at once, not waited for. And a recipe whose steps follow
# from the data.
# shellcheck source=alone.sh
. "$(dirname "$0")/alone.sh"

model="$source_dir/trainer/models/letters-mlp.json" data="$source_dir/data/letters"
mkfifo "$work/pipe"
# Nobody ever writes to it: who waited in open(2) would not end.
pipe() {
    local text=$1 status=0
    shift
    timeout 20 "$MUSTER_AGENT" "$@" --out "$work/out" >"$work/pipe.out" 2>"$work/pipe.err" || status=$?
    [ "$status" -eq 2 ] || fail "exit $status, not 2: $*"
    [ "$(wc -l <"$work/pipe.err")" -eq 1 ] || fail "not exactly one line: $*"
    grep -qF -- "expected a file, and it is a pipe" "$work/pipe.err" || fail "$text: $(cat "$work/pipe.err")"
    grep -qF -- "$text" "$work/pipe.err" || fail "'$text' is not in: $(cat "$work/pipe.err")"
}
pipe "$work/pipe" train --model "$work/pipe" --data "$data"
pipe "$work/pipe" train --model "$model" --data "$data" --recipe "$work/pipe"
pipe "$work/pipe" train --model "$model" --data "$data" --init "$work/pipe"
pipe "$work/pipe" predict --model "$model" --data "$data" --weights "$work/pipe"
mkdir "$work/described" "$work/rows" "$work/idx"
mkfifo "$work/described/dataset.json" "$work/rows/train.csv" "$work/idx/train-images-idx3-ubyte"
pipe dataset.json train --model "$model" --data "$work/described"
pipe train.csv train --model "$model" --data "$work/rows"
for file in train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do
    ln -s "$source_dir/data/mnist/$file-ubyte.gz" "$work/idx/"
done
pipe train-images train --model "$source_dir/trainer/models/mnist-cnn.json" --data "$work/idx"

# An epoch is a pass over the data, whatever the batch; at least one step, also when a step takes more than there is.
echo '{"batch": 100, "epochs": 1, "lr": 0.01}' >"$work/recipe.json"
train pass --model "$model" --data "$data" --recipe "$work/recipe.json"
[ "$(field pass "done" steps)" = 160 ] || fail "16,000 samples by 100 are not 160 steps"
train share --model "$model" --data "$data" --recipe "$work/recipe.json" --validation 0.25 --batch 50
[ "$(field share "done" steps)" = 240 ] || fail "12,000 samples by 50 are not 240 steps"
train given --model "$model" --data "$data" --recipe "$work/recipe.json" --steps 7
[ "$(field given "done" steps)" = 7 ] || fail "--steps did not win over the data"
train once --model "$model" --data "$data" --recipe "$work/recipe.json" --batch 16000
[ "$(field once "done" steps)" = 1 ] || fail "16,000 samples by 16,000 are not one step"

# Variables that are set to nothing, as the stacks have them, leave the recipe's values.
echo '{"batch": 40, "epochs": 2, "steps": 3, "lr": 0.01}' >"$work/recipe.json"
MUSTER_RECIPE=$work/recipe.json MUSTER_EPOCHS="" MUSTER_STEPS="" MUSTER_BATCH="" MUSTER_LR="" MUSTER_MOMENTUM="" \
    MUSTER_VALIDATION="" MUSTER_PATIENCE="" MUSTER_SAVE_FORMATS="" MUSTER_PROFILE=false \
    train unset --model "$model" --data "$data"
[ "$(field unset "done" steps)" = 6 ] || fail "an empty variable wins over the recipe"
train said --model "$model" --data "$data" --epochs 2 --steps 3 --batch 40 --lr 0.01
cmp "$work/unset/model.safetensors" "$work/said/model.safetensors" || fail "the recipe's numbers were not taken"
# failed TEXT ARGS...: exit status 1, and one line with that text
failed() {
    local text=$1 status=0
    shift
    "$MUSTER_AGENT" "$@" >"$work/failed.out" 2>"$work/failed.err" || status=$?
    [ "$status" -eq 1 ] || fail "exit $status, not 1: $*"
    [ "$(grep -cF -- "$text" "$work/failed.err")" -eq 1 ] || fail "'$text' is not in: $(cat "$work/failed.err")"
}

# Parameters that are finite, with which the loss is not: no model, no result.
mkdir "$work/steep"
echo "older" >"$work/steep/model.safetensors"
failed "test: the loss over 4000 samples is not a finite number" train --model "$model" --data "$data" --lr 1000 --steps 3 \
    --epochs 1 --out "$work/steep"
[ "$(cat "$work/steep/model.safetensors")" = older ] || fail "a model without a finite loss was written over another"
! grep -q '"event":"done"' "$work/failed.out" || fail "a training without a finite loss says that it is done"
mkdir "$work/large"
printf 'x,label\n1e30,0\n-1e30,1\n' >"$work/large/train.csv"
echo '{"format": "csv", "train": "train.csv", "label": "label", "classes": 2, "normalise": "none"}' >"$work/large/dataset.json"
echo '{"name": "m", "input": [1], "loss": "softmax_cross_entropy", "layers": [{"type": "dense", "units": 2}]}' >"$work/m.json"
mkdir "$work/small"
printf 'x,label\n1,0\n-1,1\n' >"$work/small/train.csv"
cp "$work/large/dataset.json" "$work/small"
train small --model "$work/m.json" --data "$work/small" --steps 3 --epochs 1 --batch 2 --lr 1000
sed -i 's/e30/e38/' "$work/large/train.csv"
failed "is not a finite number: its parameters are too large for these data" predict --model "$work/m.json" \
    --weights "$work/small/model.safetensors" --data "$work/large" --out "$work/large.csv"
[ ! -e "$work/large.csv" ] || fail "rows without numbers were written"

# Results replace files, and nothing else: no pipe, no link, and none of the files that are read.
weights="$work/small/model.safetensors"
rows=(predict --model "$work/m.json" --weights "$weights" --data "$work/small")
ln -s small/model.safetensors "$work/link"
ln "$weights" "$work/other-name"
sum=$(sha256sum <"$weights")
refused "expected a file or nothing there, and it is a pipe" "${rows[@]}" --out "$work/pipe"
refused "expected a file or nothing there, and it is a link" "${rows[@]}" --out "$work/link"
refused "expected a file or nothing there, and it is a folder" "${rows[@]}" --out "$work/small"
for out in "$weights" "$work/other-name"; do
    refused "it is the same file as '$weights', which is read" "${rows[@]}" --out "$out"
done
refused "it is the same file as '$work/m.json'" "${rows[@]}" --out "$work/m.json"
for file in train.csv dataset.json; do
    refused "it is a file of the data set '$work/small'" "${rows[@]}" --out "$work/small/$file"
done
[ -p "$work/pipe" ] && [ -L "$work/link" ] && [ "$(sha256sum <"$weights")" = "$sum" ] || fail "a refused output was replaced"
mkdir "$work/occupied"
mkfifo "$work/occupied/model.safetensors"
failed_or_refused=0
"$MUSTER_AGENT" train --out "$work/occupied" --model "$work/m.json" --data "$work/small" --steps 3 --epochs 1 --batch 2 \
    >"$work/occupied.events" 2>"$work/occupied.err" || failed_or_refused=$?
[ "$failed_or_refused" -ne 0 ] || fail "a pipe was replaced by a model"
grep -qF "and it is a pipe" "$work/occupied.err" || fail "nobody is told of the pipe"
! grep -q first_step "$work/occupied.events" || fail "the pipe is told of after the work"

# Names of classes go to a terminal without what they would command there, and are whole elsewhere.
mkdir "$work/names"
long=$(printf 'n%.0s' {1..200})
printf 'x,label\n1,"a\n\033[31m"\n-1,%s1\n2,%s2\n' "$long" "$long" >"$work/names/train.csv"
sed 's/"units": 2/"units": 3/' "$work/m.json" >"$work/m3.json"
train names --model "$work/m3.json" --data "$work/names" --steps 3 --epochs 1 --batch 2
rows=(predict --model "$work/m3.json" --weights "$work/names/model.safetensors" --data "$work/names")
"$MUSTER_AGENT" "${rows[@]}" --out "$work/names.csv" >"$work/names.table"
grep -qF 'a\x0a\x1b[31m ' "$work/names.table" || fail "the table has no escaped name: $(cat -v "$work/names.table")"
[ "$(wc -l <"$work/names.table")" -eq 8 ] || fail "a name breaks the table's lines"
for n in 1 2; do
    "$MUSTER_AGENT" "${rows[@]}" --format json | jq -e --arg n "$long$n" '.classes | any(.class == $n)' >/dev/null || fail "JSON cuts names"
    grep -q "^[12],$long$n," "$work/names.csv" || fail "rows cut names"
done

# Descriptors that are closed at the start are nobody's: a pipe of the agent's own would take their place, and what is
# written to stdout would come back as a signal.
"$MUSTER_AGENT" train --slot closed --out "$work/closed" --model "$work/m.json" --data "$work/small" --steps 3 --epochs 1 \
    --batch 2 --lr 1000 <&- >&- 2>&- || fail "exit $? with all three descriptors closed"
cmp "$work/closed/model.safetensors" "$work/small/model.safetensors" || fail "another model with closed descriptors"

# A part without labels takes nothing from the other, which has some.
mkdir "$work/half"
cp "$work/small/train.csv" "$work/half"
printf 'x\n3\n' >"$work/half/test.csv"
sed 's/"train": "train.csv"/&, "test": "test.csv"/' "$work/small/dataset.json" >"$work/half/dataset.json"
rows=(predict --model "$work/m.json" --weights "$work/small/model.safetensors" --data "$work/half" --format json)
"$MUSTER_AGENT" "${rows[@]}" --part train | jq -e '.accuracy >= 0' >/dev/null || fail "labels of the training part are not used"
"$MUSTER_AGENT" "${rows[@]}" | jq -e 'has("accuracy") | not' >/dev/null || fail "an accuracy without labels"

# What another training left in the folder is told of, and stays.
touch "$work/closed/model.onnx"
train closed --model "$work/m.json" --data "$work/small" --steps 3 --epochs 1 --batch 2 --save-formats npz
[ "$(grep -c "is not of this training: it was there before" "$work/closed.err")" -eq 1 ] || fail "not one line on model.onnx"
grep -q "/model.onnx' is not" "$work/closed.err" && [ -e "$work/closed/model.onnx" ] || fail "$(cat "$work/closed.err")"

# Fine-tuning on the same classes in another order is possible, and told.
for order in ab ba; do
    mkdir "$work/$order"
    printf 'x,label\n1,a\n-1,b\n' >"$work/$order/train.csv"
    echo '{"format": "csv", "train": "train.csv", "label": "label", "classes": ["'"${order:0:1}"'", "'"${order:1}"'"]}' \
        >"$work/$order/dataset.json"
    train "$order" --model "$work/m.json" --data "$work/$order" --steps 1 --epochs 1 --batch 2 \
        ${first:+--init "$work/$first/model.safetensors"}
    first=$order
done
grep -qF "was trained with other categories of column 'label', or in another order" "$work/ba.err" || fail "nobody tells of classes in another order"
train again --model "$work/m.json" --data "$work/ba" --steps 1 --epochs 1 --batch 2 --init "$work/ba/model.safetensors"
! grep -q "level=warn" "$work/again.err" || fail "equal classes: $(cat "$work/again.err")"
echo "inputs: pipes refused, epochs as long as the data"
