#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two trainings without a network on one machine: the second cannot answer health checks, says so, and trains.
# shellcheck source=alone.sh
. "$(dirname "$0")/alone.sh"

options=(--model "$source_dir/trainer/models/letters-mlp.json" --data "$source_dir/data/letters" --batch 8 --port 7171)
mkdir "$work/first"
"$MUSTER_AGENT" train --slot first --out "$work/first" "${options[@]}" --epochs 100000 \
    >"$work/first.events" 2>"$work/first.err" &
first=$!
trap 'kill -KILL "$first"; rm -rf "$work"' EXIT
deadline=$((SECONDS + 20))
until grep -q '"event":"first_step"' "$work/first.events"; do
    ((SECONDS < deadline)) || fail "the first did not begin within 20 s"
    read -r -t 0.05 <> <(:) || true
done
train second "${options[@]}" --epochs 1 --steps 3
grep -q 'another agent of this machine answers the health checks of port 7171' "$work/second.err" ||
    fail "the second did not say that it answers no health checks"
echo "two at once"
