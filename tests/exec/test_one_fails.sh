#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The program of one worker fails: the others' are ended with all that they started; that worker returns its program's
# status, the others 1.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

namespaces 3
make_key
cat >"$work/program.sh" <<'P'
echo started
if [ "$MUSTER_RANK" -eq 1 ]; then
    exit 42
fi
sleep 7777 &
setsid sleep 7777 &
wait
P
workers=()
for i in 1 2 3; do
    exec_worker "$i" --workers 3 -- sh "$work/program.sh"
    workers+=("$last_pid")
done
all_end 40 42 "${workers[1]}"
all_end 40 1 "${workers[0]}" "${workers[2]}"
for i in 1 3; do
    says "w$i.out" started
    grep -q "the command of w2 (rank 1) ended with status 42" "$work/w$i.err" || fail "w$i does not say whose failed"
done
nothing_left "sleep 7777"
echo "one failed, all ended"
