#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the examples of docs/model-files.md: its Python must find the same accuracy in a model file as the agent that
# wrote it, and its letters must be a data set for its letters model.
#
#     test_examples.sh BUILD
set -euo pipefail

build=$(cd "$1" && pwd)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$root"

fail() {
    echo "docs.examples: $*" >&2
    exit 1
}

# A python with numpy; pyenv and its like hide the system's.
numpy_python() {
    local each
    for each in python3 /usr/bin/python3; do
        if "$each" -c 'import numpy' 2>/dev/null; then
            echo "$each"
            return
        fi
    done
    fail "no python3 with numpy (python3-numpy)"
}

# example FENCE TEXT: the fenced block of docs/model-files.md with this language that has TEXT in it.
example() {
    awk -v fence="\`\`\`$1" -v text="$2" '
        $0 == fence { inside = 1; block = ""; next }
        inside && $0 == "```" { inside = 0; if (index(block, text)) printf "%s", block; next }
        inside { block = block $0 "\n" }' docs/model-files.md
}

# train EVENTS OPTIONS...: alone, briefly; as whoever runs this test, for the folder is theirs.
train() {
    local events=$1
    shift
    "$build/node-agent/muster-agent" train --standalone --user none --threads 1 --batch 64 --epochs 1 "$@" >"$events" ||
        fail "train $*: exit status $?"
}

accuracy_of() { sed -n 's/.*"event":"test".*"accuracy":\([0-9.]*\).*/\1/p' "$1"; }

python=$(numpy_python)
example python '# evaluate.py' >"$work/evaluate.py"
example python '# letters.py' >"$work/letters.py"
example json '"letters-mlp"' >"$work/letters.json"
example json '"mnist-cnn"' >"$work/mnist-cnn.json"
for file in "$work"/*; do [[ -s $file ]] || fail "${file##*/} was not found in docs/model-files.md"; done
cmp "$work/mnist-cnn.json" trainer/models/mnist-cnn.json || fail "the model shown is not trainer/models/mnist-cnn.json"

train "$work/mnist.events" --model "$work/mnist-cnn.json" --data data/mnist --steps 6 --lr 0.1 --out "$work/mnist"
told=$(accuracy_of "$work/mnist.events")
found=$("$python" "$work/evaluate.py" "$work/mnist/model.safetensors" data/mnist)
echo "$found; the agent says $told"
# Sums in another order may turn one image that is on the edge.
awk -v told="$told" -v found="${found##* }" 'BEGIN { d = told - found; exit !(told != "" && d < 2e-4 && d > -2e-4) }' ||
    fail "evaluate.py says '$found', the agent '$told'"

mkdir "$work/letters"
"$python" "$work/letters.py" "$work/letters"
train "$work/letters.events" --model "$work/letters.json" --data "$work/letters" --steps 300 --lr 0.1 --momentum 0.9 \
    --out "$work/letters-out"
told=$(accuracy_of "$work/letters.events")
echo "letters: test accuracy $told"
awk -v told="$told" 'BEGIN { exit !(told > 0.4) }' || fail "letters: test accuracy $told, expected more than 0.4"
