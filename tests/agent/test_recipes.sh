#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Recipes and the layers that they are for: words through an embedding, numbers to be predicted, normalised batches with
# dropout, and the shipped recipe for the letters, of which an option wins.
# shellcheck source=alone.sh
. "$(dirname "$0")/alone.sh"

# Three words, and where most of them are at home.
mkdir "$work/words"
awk 'BEGIN {
    split("elk seal bear wolf lion zebra gecko camel", word, " ")
    srand(7)
    print "first,second,third,label"
    for (i = 0; i < 1200; i++) {
        north = 0
        line = ""
        for (j = 0; j < 3; j++) { k = int(rand() * 8) + 1; north += k <= 4; line = line word[k] "," }
        print line (north > 1 ? "north" : "south")
    }
}' >"$work/words/animals.csv"
cat >"$work/words/dataset.json" <<'JSON'
{"format": "csv", "train": "animals.csv", "test_last": 200, "label": "label",
 "categorical": ["first", "second", "third"], "encoding": "index"}
JSON
cat >"$work/words.json" <<'JSON'
{"name": "words", "input": [3], "loss": "cross_entropy",
 "layers": [{"type": "embedding", "vocabulary": 8, "size": 4}, {"type": "flatten"},
            {"type": "dense", "units": 24, "activation": "tanh"}, {"type": "dense", "units": 2}, {"type": "softmax"}]}
JSON
cat >"$work/words-recipe.json" <<'JSON'
{"optimizer": "adam", "lr": 0.02, "schedule": {"type": "cosine", "warmup_epochs": 0.5}, "clip_norm": 1,
 "batch": 25, "epochs": 60, "validation": 0.1, "patience": 15}
JSON
train words --model "$work/words.json" --recipe "$work/words-recipe.json" --data "$work/words"
holds "$(field words test accuracy)" '>' 0.97 "accuracy with words"
"$MUSTER_AGENT" predict --model "$work/words.json" --weights "$work/words/model.safetensors" --data "$work/words" \
    >"$work/table"
grep -q "^accuracy: $(printf %.4f "$(field words test accuracy)")" "$work/table" || fail "predict: $(cat "$work/table")"
sed 's/"vocabulary": 8/"vocabulary": 7/' "$work/words.json" >"$work/few.json"
refused "layer 'embedding_1' (embedding) does not take: its numbers go from 0 to 6" \
    train --model "$work/few.json" --data "$work/words"

# y = (x1 - x2, x1 x2), with normalised batches.
mkdir "$work/curve"
awk 'BEGIN {
    srand(3)
    print "x1,x2,difference,product"
    for (i = 0; i < 1000; i++) { a = 2 * rand() - 1; b = 2 * rand() - 1; print a "," b "," a - b "," a * b }
}' >"$work/curve/curve.csv"
echo '{"format": "csv", "train": "curve.csv", "test_last": 200, "targets": ["difference", "product"]}' \
    >"$work/curve/dataset.json"
cat >"$work/curve.json" <<'JSON'
{"name": "curve", "input": [2], "loss": "mse",
 "layers": [{"type": "dense", "units": 32}, {"type": "batch_norm", "activation": "tanh"},
            {"type": "dropout", "rate": 0.01}, {"type": "dense", "units": 2}]}
JSON
cat >"$work/curve-recipe.json" <<'JSON'
{"optimizer": {"type": "nesterov", "momentum": 0.9}, "lr": 0.1, "weight_decay": 0.00001,
 "schedule": {"type": "step", "every_epochs": 15, "factor": 0.2}, "batch": 40, "epochs": 40}
JSON
train curve --model "$work/curve.json" --recipe "$work/curve-recipe.json" --data "$work/curve"
holds "$(field curve test loss)" '<' 0.02 "squared difference"
train again --model "$work/curve.json" --recipe "$work/curve-recipe.json" --data "$work/curve"
cmp "$work/curve/model.safetensors" "$work/again/model.safetensors" || fail "the same run ended with other bits"
train other --model "$work/curve.json" --recipe "$work/curve-recipe.json" --data "$work/curve" --seed 2
! cmp -s "$work/curve/model.safetensors" "$work/other/model.safetensors" || fail "another seed gave the same bits"
sed 's/"mse"/"softmax_cross_entropy"/' "$work/curve.json" >"$work/classes.json"
refused "the loss 'softmax_cross_entropy'" train --model "$work/classes.json" --data "$work/curve"

# What is shipped. An option wins over the recipe.
train letters --model "$source_dir/trainer/models/letters-mlp.json" --recipe "$source_dir/trainer/recipes/letters-mlp.json" \
    --data "$source_dir/data/letters" --epochs 3
[ "$(field letters "done" epochs)" = 3 ] || fail "--epochs did not win over the recipe"
[ "$(field letters "done" steps)" = 750 ] || fail "an epoch of 16,000 by 64 is not 250 steps"
holds "$(field letters test accuracy)" '>' 0.85 "accuracy of the letters"

echo '{"optimizer": {"type": "adam", "momentum": 0.9}}' >"$work/wrong.json"
refused "wrong.json: optimizer (adam): unknown key 'momentum'" train --model "$work/curve.json" --data "$work/curve" \
    --recipe "$work/wrong.json"
echo "recipes: accuracy of the words $(field words test accuracy), of the letters $(field letters test accuracy)"
