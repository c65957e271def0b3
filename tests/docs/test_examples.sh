#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the example of docs/model-files.md: its Python must find the same accuracy in a model file as the agent that wrote
# it.
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
for file in "$work"/*; do [[ -s $file ]] || fail "${file##*/} was not found in docs/model-files.md"; done

train "$work/mnist.events" --model trainer/models/mnist-cnn.json --data data/mnist --steps 6 --lr 0.1 --out "$work/mnist"
told=$(accuracy_of "$work/mnist.events")
found=$("$python" "$work/evaluate.py" "$work/mnist/model.safetensors" data/mnist)
echo "$found; the agent says $told"
# Sums in another order may turn one image that is on the edge.
awk -v told="$told" -v found="${found##* }" 'BEGIN { d = told - found; exit !(told != "" && d < 2e-4 && d > -2e-4) }' ||
    fail "evaluate.py says '$found', the agent '$told'"
