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
echo "inputs: pipes refused, epochs as long as the data"
