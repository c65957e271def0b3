#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A torch DDP script, unchanged, over three machines whose host names lead nowhere; then again with a worker that is
# killed in the middle: all start anew once it is back.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

need_python torch python3-torch
namespaces 3
make_key
script=$(dirname "$0")/ddp.py
workers=()
for i in 2 3 1; do
    exec_worker "$i" --workers 3 --framework torch -- /usr/bin/python3 "$script"
    workers+=("$last_pid")
done
all_end 100 0 "${workers[@]}"
for i in 1 2 3; do
    says "w$i.out" "rank $((i - 1)) of 3: y = 3.00 x + -1.00"
done

# In the first view it trains for so long that it is surely killed in the middle.
rm -f "$work"/w?.out "$work"/w?.err
program=(sh -c '[ "$MUSTER_VIEW" -gt 1 ] || export STEPS=100000000; exec /usr/bin/python3 "$0"' "$script")
workers=()
for i in 1 2 3; do
    exec_worker "$i" --workers 3 --framework torch -- "${program[@]}"
    workers+=("$last_pid")
done
for i in 1 2 3; do
    wait_for 60 "$work/w$i.out" "rank $((i - 1)) begins"
done
kill_all 3
finish "${workers[2]}" 10
exec_worker 3 --workers 3 --framework torch -- "${program[@]}"
workers[2]=$last_pid
all_end 100 0 "${workers[@]}"
for i in 1 2 3; do
    says "w$i.out" "rank $((i - 1)) of 3: y = 3.00 x + -1.00"
done
echo "three replicas agreed, twice"
