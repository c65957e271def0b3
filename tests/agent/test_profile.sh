#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Where the time goes: the event `profile` and its sum, tables and columns with --profile, and what somebody at a terminal
# sees of a training alone.
# shellcheck source=alone.sh
. "$(dirname "$0")/alone.sh"

options=(--model "$source_dir/trainer/models/letters-mlp.json" --data "$source_dir/data/letters" --epochs 3 --steps 40
    --validation 0.2)
train plain "${options[@]}"
train profiled "${options[@]}" --profile
cmp "$work/plain/model.safetensors" "$work/profiled/model.safetensors" || fail "a profile changed the model"

# The parts are the whole, with and without the option.
for name in plain profiled; do
    jq -s -e 'map(select(.event == "profile")) | length == 1 and (.[0] |
        ([.start_ms, .load_ms, .discovery_ms, .connect_ms, .compute_ms, .exchange_ms, .wait_ms, .between_ms, .verify_ms,
          .validation_ms, .saving_ms, .test_ms, .recovery_ms] | (all(. >= -0.001)) and (add - $total | fabs < 0.01))
        and .steps == 120 and .load_ms > 0 and .compute_ms > 0 and .validation_ms > 0 and .test_ms > 0)' \
        --argjson total "$(field "$name" profile total_ms)" "$work/$name.events" >/dev/null ||
        fail "the parts of $name: $(grep '"profile"' "$work/$name.events")"
done
grep -q 'OF A STEP' "$work/plain.err" && fail "tables without --profile"
[ ! -e "$work/plain/steps-plain.csv" ] || fail "a step log without --profile"
jq -s -e 'map(select(.event == "profile"))[0].step_ms | .p50 > 0 and .p50 <= .p90 and .p90 <= .p99 and .p99 <= .max' \
    "$work/profiled.events" >/dev/null || fail "percentiles: $(grep '"profile"' "$work/profiled.events")"
[ "$(jq -s 'map(select(.event == "epoch" and .p50_ms > 0 and .max_ms >= .p90_ms and .samples_per_s > 0)) | length' \
    "$work/profiled.events")" = 3 ] || fail "not every epoch has its figures"
for table in 'EPOCH ' 'OF A STEP ' 'OF THE RUN '; do
    grep -q "^$table" "$work/profiled.err" || fail "no table '$table'"
done
[ "$(grep -c '^[123]  *40 ' "$work/profiled.err")" = 3 ] || fail "not a row for each epoch"

# Rows: time goes on, and the time of a step and that between steps is all that passes.
steps="$work/profiled/steps-profiled.csv"
[ "$(head -n 1 "$steps")" = "slot,rank,view,epoch,step,ms,loss,accuracy,compute_ms,wait_ms,transfer_ms,bytes_sent,time,between_ms,slowest" ] ||
    fail "the header: $(head -n 1 "$steps")"
awk -F, 'NR == 1 { next } { n++; if (NF != 15 || $15 != "") exit 1 }
    n == 1 { first = $13; next } { passed += $6 + $14; last = $13 }
    END { d = (last - first) * 1000 - passed; if (n != 120 || d < -20 || d > 20) { print n, d; exit 1 } }' "$steps" ||
    fail "the rows do not add up to the time that passed"

# Not at a terminal: a line an epoch; none if they are not wanted.
[ "$(grep -c 'msg="epoch [12]/3: loss .*validation: .* samples/s, [0-9:]* left"' "$work/plain.err")" = 2 ] || fail "not a line for each epoch"
grep -q 'msg="epoch 3/3: loss .*validation: .* samples/s"' "$work/plain.err" || fail "no line for the last epoch, with nothing left"
grep -q 'msg="test: accuracy 0\.' "$work/plain.err" || fail "no line with the test's result"
train silent "${options[@]}" --progress none
[ ! -s "$work/silent.err" ] || fail "--progress none, and yet: $(head -n 1 "$work/silent.err")"
refused "option '--progress': 'never' is none of auto, lines and none" train "${options[@]}" --progress never

# At a terminal: a bar, lines above it, and no events between them; events that go elsewhere are there.
if command -v script >/dev/null; then
    at_terminal() { TERM=xterm script -qec "$1" /dev/null </dev/null >"$work/typescript" || fail "at a terminal: $(tail -n 5 "$work/typescript")"; }
    printf -v command '%q ' "$MUSTER_AGENT" train "${options[@]}" --out "$work/seen"
    at_terminal "$command"
    grep -q $'\r[123]/3 \\[[#-]*\\] [0-9]*/40  ETA .* loss ' "$work/typescript" || fail "no bar"
    [ "$(grep -c 'epoch [123]/3: loss' "$work/typescript")" = 3 ] || fail "not a line for each epoch above the bar"
    grep -q $'\r\e\\[Kepoch' "$work/typescript" || fail "no line takes the bar's place"
    grep -q '"event"' "$work/typescript" && fail "events among the bars"
    at_terminal "$command >'$work/seen.events'"
    grep -q '"event":"done"' "$work/seen.events" || fail "events that go to a file are lost at a terminal"
    grep -q 'ETA' "$work/typescript" || fail "no bar when events go to a file"
fi
echo "profile: $(grep '^compute' "$work/profiled.err" | tail -n 1)"
