#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_epoch_end.sh EVENT...: one of three workers is killed as it says that an epoch ended, or that it has validated, in
# the middle of what is done between epochs; it is started again. What comes of it is the undisturbed run to the bit: its
# parameters, what is known of the validation set, the best model, and when to stop.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

namespaces 4
make_key
train_options 3
unset MUSTER_EPOCHS MUSTER_STEPS MUSTER_BATCH
common=(--model "$source_dir/trainer/models/letters-mlp.json" --data "$source_dir/data/letters" --subnet 10.99.0.0/24
    --key-file "$work/key" --recipe "$work/recipe.json")
# Most of the data validates: that takes a while.
cat >"$work/recipe.json" <<'JSON'
{"optimizer": {"type": "nesterov", "momentum": 0.9}, "lr": 0.2, "batch": 16, "epochs": 24, "steps": 25,
 "validation": 0.7, "patience": 4}
JSON

undisturbed 4 3
must_end "$undisturbed_pid" 100 0 "the undisturbed one"
last=$(field "$work/undisturbed.out" "done" epochs)
digest=$(field "$work/undisturbed.out" "done" digest)
validations() { jq -c 'select(.event == "validation") | del(.t, .slot)' "$1"; }
validations "$work/undisturbed.out" >"$work/validations"

# ended I: like the undisturbed one, with the same epochs and validations as far as it saw them
ended() {
    must_end "${pid_of[$1]}" 60 0 "w$1"
    [ "$(field "$work/w$1.out" "done" digest)" = "$digest" ] || fail "the model of w$1 is not that of an undisturbed run"
    [ "$(field "$work/w$1.out" "done" epochs)" = "$last" ] || fail "w$1 stopped after another epoch"
    validations "$work/w$1.out" | grep -vxFf "$work/validations" && fail "w$1 validated otherwise"
    [ -z "$(find "$work/state$1" -type f)" ] || fail "state of a finished job stays behind in state$1"
}

victim=0 hits=0
for event in "$@"; do
    # The last one, too: there the others have nothing left to train, and end without it.
    for at in 1 2 "$last"; do
        victim=$((victim % 3 + 1))
        for i in 1 2 3; do
            rm -rf "$work/w$i" "$work/state$i" "$work/w$i.out"
            surviving "$i"
        done
        wait_for 60 "$work/w$victim.out" "\"event\":\"$event\".*\"epoch\":$at,"
        kill -KILL "${pid_of[victim]}"
        must_end "${pid_of[victim]}" 10 137 "w$victim"
        cp "$work/w$victim.out" "$work/w$victim-first.out"
        [ "$at" = "$last" ] || surviving "$victim"
        for i in 1 2 3; do
            [ "$at$i" = "$last$victim" ] || ended "$i"
        done
        other=$((victim % 3 + 1))
        # Where the others went on: at the end of that epoch, or in the next one's steps.
        step=$(jq -s 'map(select(.event == "view" and .cause == "lost"))[0].step' "$work/w$other.out")
        [ "$step" != $((at * 25)) ] || hits=$((hits + 1))
        cmp "$work/w$other/model-best.safetensors" "$work/undisturbed/model-best.safetensors" || fail "another best model"
    done
done
echo "killed around three epochs' ends of $last, $hits of them before the next step"
