#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Other frameworks' programs on the lab's nodes, as processes without containers: a torch DDP script and an Open MPI
# program, both as people write them. The nodes have host names of their own that resolve nowhere, and no ssh.
set -euo pipefail
# shellcheck source=tests/lab/lib.sh
source "$(dirname "$0")/lib.sh"

lab_test
launch=${MUSTER_BUILD:-$source_root/build/release}/node-agent/muster-launch
[[ -x $launch ]] || { say "skipped: no $launch"; exit 77; }
lab_use -n 3
head -c 32 /dev/urandom >"$test_folder/key"
pids=()
# shellcheck disable=SC2016 # expanded when the test ends
at_end 'kill -KILL "${pids[@]}" 2>/dev/null'

# workers NAME OPTIONS... -- CMD...: a worker on each node; output in NAME-nodeN.out, messages in .err
workers() {
    local name=$1 n
    shift
    pids=()
    for n in 1 2 3; do
        "$lab" exec "node$n" "$launch" exec --slot "node$n" --workers 3 --subnet 10.77.0.0/24 --user none \
            --key-file "$test_folder/key" --events none "$@" \
            >"$test_folder/$name-node$n.out" 2>"$test_folder/$name-node$n.err" </dev/null &
        pids+=($!)
    done
}

all_done() {
    local name=$1 n status
    for n in 1 2 3; do
        status=0
        wait "${pids[n - 1]}" || status=$?
        [[ $status -eq 0 ]] || fail "$name on node$n: status $status: $(tail -n 5 "$test_folder/$name-node$n.err")"
    done
}

ended() {
    local pid
    for pid in "${pids[@]}"; do
        if kill -0 "$pid" 2>/dev/null; then return 1; fi
    done
}

if /usr/bin/python3 -c 'import torch' 2>/dev/null; then
    step "a torch DDP script"
    workers torch --framework torch -- /usr/bin/python3 "$source_root/tests/exec/ddp.py"
    wait_until 90 "the three programs to end" ended || fail "$(tail "$test_folder"/torch-*.err)"
    all_done torch
    for n in 1 2 3; do
        grep -qx "rank $((n - 1)) of 3: y = 3.00 x + -1.00" "$test_folder/torch-node$n.out" || fail "node$n fitted something else"
    done
elif [[ -n ${CI:-} ]]; then
    fail "python3-torch is missing"
else
    say "without torch: python3-torch is not installed"
fi

if command -v mpicc >/dev/null && command -v mpirun >/dev/null; then
    step "an Open MPI program"
    mpicc -O1 -o "$test_folder/allreduce" "$source_root/tests/exec/allreduce.c"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    workers mpi --framework mpi -- mpirun "$test_folder/allreduce"
    wait_until 90 "the three programs to end" ended || fail "$(tail "$test_folder"/mpi-*.err)"
    all_done mpi
    for rank in 0 1 2; do
        grep -qx "rank $rank of 3: the sum is 6" "$test_folder/mpi-node1.out" || fail "rank $rank is not in mpirun's output"
    done
elif [[ -n ${CI:-} ]]; then
    fail "openmpi-bin or libopenmpi-dev is missing"
else
    say "without Open MPI: openmpi-bin and libopenmpi-dev are not installed"
fi
