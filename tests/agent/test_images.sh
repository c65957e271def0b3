#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Folders of images, PNG and JPEG: trained, labelled by predict with and without folders for classes, and refused where
# one of them is not like the others.
# shellcheck source=alone.sh
. "$(dirname "$0")/alone.sh"
: "${MAKE_IMAGES:?path of make_images}"

mkdir "$work/data"
"$MAKE_IMAGES" "$work/data/train" 150 1
"$MAKE_IMAGES" "$work/data/test" 40 2
echo "no image" >"$work/data/train/ring/notes.txt" # passed over
cat >"$work/model.json" <<'JSON'
{"name": "shapes", "input": [16, 16, 1], "loss": "softmax_cross_entropy",
 "layers": [{"type": "conv2d", "filters": 8, "kernel": 5, "activation": "relu"}, {"type": "max_pool", "size": 2},
            {"type": "flatten"}, {"type": "dense", "units": 16, "activation": "relu"}, {"type": "dense", "units": 2}]}
JSON
cat >"$work/recipe.json" <<'JSON'
{"optimizer": "adam", "lr": 0.005, "batch": 20, "epochs": 12, "validation": 0.1, "patience": 6}
JSON
train shapes --model "$work/model.json" --recipe "$work/recipe.json" --data "$work/data"
accuracy=$(field shapes test accuracy)
holds "$accuracy" '>' 0.95 "accuracy of rings and bars"
[ "$(field shapes test images)" = 80 ] || fail "not all of 80 test images"
[ "$(field shapes validation images)" = 30 ] || fail "a tenth of 300 is not $(field shapes validation images)"

# Class by class, and the same images without folders, which are labelled alike.
predict=(predict --model "$work/model.json" --weights "$work/shapes/model.safetensors")
"$MUSTER_AGENT" "${predict[@]}" --data "$work/data" --out "$work/rows.csv" >"$work/table"
grep -q "^accuracy: $(printf %.4f "$accuracy")" "$work/table" || fail "predict: $(cat "$work/table")"
grep -q '^ring ' "$work/table" || fail "the classes have no names: $(cat "$work/table")"
mkdir -p "$work/new/test"
for image in "$work"/data/test/bar/*; do cp "$image" "$work/new/test/"; done
"$MUSTER_AGENT" "${predict[@]}" --data "$work/new" --out "$work/new.csv" >/dev/null
cmp <(awk -F, '$2 == "bar" { print $3 }' "$work/rows.csv") <(tail -n +2 "$work/new.csv" | awk -F, '{ print $3 }') ||
    fail "without folders the same images are labelled in another way"

# What is not as it should be, one at a time: it names the file.
options=(train --model "$work/model.json" --data "$work/data")
other="$work/data/train/ring/0500.png"
"$MAKE_IMAGES" "$work/large" 1 3 20
cp "$work/large/ring/0000.png" "$other"
refused "train/ring/0500.png" "${options[@]}"
head -c 200 "$work/data/train/ring/0001.jpg" >"$other"
refused "ring/0500.png': no good JPEG" "${options[@]}"
head -c 100 "$work/data/train/ring/0000.png" >"$other"
refused "ring/0500.png': no good PNG" "${options[@]}"
echo "text" >"$other"
refused "ring/0500.png': neither PNG nor JPEG" "${options[@]}"
: >"$other"
refused "ring/0500.png': neither PNG nor JPEG" "${options[@]}"
rm "$other"
mkdir "$work/data/test/cross"
cp "$work/data/test/bar/0000.png" "$work/data/test/cross/"
refused "class 'cross' is not among the training set's" "${options[@]}"
rm -r "$work/data/test/cross"
mkdir "$work/data/train/cross"
refused "train/cross' holds no image" "${options[@]}"
rmdir "$work/data/train/cross"
sed 's/16, 16, 1/16, 16, 3/' "$work/model.json" >"$work/color.json"
refused "model 'shapes' takes 16 x 16 x 3, the training data is 16 x 16 x 1" train --model "$work/color.json" --data "$work/data"
echo '{"format": "images", "channels": 3}' >"$work/data/dataset.json"
train color --model "$work/color.json" --data "$work/data" --epochs 1 --steps 2
echo "images: accuracy $accuracy of rings and bars"
