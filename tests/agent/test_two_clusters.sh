#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two clusters of two workers on one subnet at the same time, with one key: they do not mix.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

namespaces 4
make_key
train_options 2
for i in 1 2 3 4; do # red, blue, red, blue
    cluster=$([ $((i % 2)) -eq 1 ] && echo red || echo blue)
    worker "$i" --cluster "$cluster"
    pid_of[i]=$last_pid
done
for i in 1 2 3 4; do
    must_end "${pid_of[i]}" 20 0 "w$i"
done
for i in 1 2 3 4; do
    other=$((i > 2 ? i - 2 : i + 2))
    members=$(field "$work/w$i.out" view 'members | map(.slot) | sort | join(" ")')
    expected=$(printf '%s\n' "w$i" "w$other" | sort | paste -sd ' ')
    [ "$members" = "$expected" ] || fail "w$i has members '$members', not '$expected'"
done
echo "two clusters, two views"
