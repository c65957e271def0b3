#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Three workers with a recipe that begin with a saved model and stop early: all after the same epoch, with the model of one
# worker that does the work of three. The third sends slowly, and the others' profiles say that it is the one.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

namespaces 4
make_key
train_options 3
unset MUSTER_EPOCHS MUSTER_STEPS MUSTER_BATCH
common=(--model "$source_dir/trainer/models/letters-mlp.json" --data "$source_dir/data/letters" --subnet 10.99.0.0/24
    --key-file "$work/key" --recipe "$work/recipe.json" --init "$work/init/model.safetensors")

inside 1 "$MUSTER_AGENT" train --standalone --workers 1 "${common[@]:0:4}" --epochs 1 --steps 150 --lr 0.05 --momentum 0.9 \
    --progress none --out "$work/init" >"$work/init.out" 2>"$work/init.err" || fail "the model to begin with"
# A learning rate with which the loss soon goes up and down. Steps follow from the data: 14,400 by 3 x 96.
cat >"$work/recipe.json" <<'JSON'
{"optimizer": {"type": "nesterov", "momentum": 0.9}, "lr": 0.2, "batch": 96, "epochs": 30,
 "validation": 0.1, "patience": 2}
JSON

# three ARGS...: all of them, to the end
three() {
    local i
    for i in 1 2 3; do
        worker "$i" --profile "$@"
        pid_of[i]=$last_pid
    done
    for i in 1 2 3; do
        must_end "${pid_of[i]}" 100 0 "w$i"
    done
}
undisturbed 4 3
three
must_end "$undisturbed_pid" 100 0 "the undisturbed one"
epochs=$(field "$work/undisturbed.out" "done" epochs)
[ "$epochs" -lt 30 ] || fail "$epochs epochs of a training that should end early"
[ "$(field "$work/undisturbed.out" "done" steps)" -eq $((50 * epochs)) ] || fail "14,400 samples by 288 are not 50 steps"
for i in 1 2 3; do
    [ "$(field "$work/w$i.out" "done" digest)" = "$(field "$work/undisturbed.out" "done" digest)" ] ||
        fail "the model of w$i is not that of one worker"
    cmp <(jq -c 'select(.event == "validation") | del(.t, .slot)' "$work/w$i.out") \
        <(jq -c 'select(.event == "validation") | del(.t, .slot)' "$work/undisturbed.out") || fail "w$i validated otherwise"
    cmp "$work/w$i/model-best.safetensors" "$work/undisturbed/model-best.safetensors" || fail "w$i has another best model"
done
[ "$(jq -s 'map(select(.event == "validation")) | last | .stops and .best_epoch == .epoch - 2' "$work/w1.out")" = true ] ||
    fail "the last validation: $(grep '"validation"' "$work/w1.out" | tail -n 1)"
loss=$(field "$work/w1.out" epoch loss)
awk "BEGIN { exit !($loss < 1.2) }" || fail "the first epoch's loss, $loss, is that of a new model"

# Whom the others wait for: one that sends at 8 Mbit/s. Who has its part waits for the other, which does not have it yet: in
# each step at least one of the two names it.
if inside 3 tc qdisc add dev eth0 root tbf rate 8mbit burst 8kb latency 400ms 2>/dev/null; then
    three --epochs 1 --steps 6 --patience 0
    named=$(awk -F, 'FNR > 1 && $15 == "w3"' "$work/w1/steps-w1.csv" "$work/w2/steps-w2.csv" | wc -l)
    [ "$named" -ge 4 ] || fail "w1 and w2 waited for w3 in $named steps of 6 each: $(cat "$work/w1/steps-w1.csv" "$work/w2/steps-w2.csv")"
    for i in 1 2; do
        jq -s -e 'map(select(.event == "profile"))[0] |
            (.slowest | length > 0 and all(.[]; .steps > 0 and .ms > 0)) and .wait_ms > 0 and
            (([.start_ms, .load_ms, .discovery_ms, .connect_ms, .compute_ms, .exchange_ms, .wait_ms, .between_ms, .verify_ms,
              .validation_ms, .saving_ms, .test_ms, .recovery_ms] | add) - .total_ms | fabs) < 0.01' "$work/w$i.out" >/dev/null ||
            fail "the profile of w$i: $(grep '"profile"' "$work/w$i.out")"
        [ "$(field "$work/w$i.out" epoch slowest)" != null ] || fail "the epoch of w$i: $(grep '"epoch"' "$work/w$i.out" | tail -n 1)"
        grep -q '^WAITED FOR' "$work/w$i.err" || fail "no table says whom w$i waited for"
    done
fi
echo "three workers from a saved model: $epochs epochs; $(jq -c 'select(.event == "profile") | .slowest' "$work/w1.out")"
