#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two workers whose OpenBLAS computes with different kernels: an exchange that needs equal arithmetic is refused, and both
# kernels named; auto takes one that does not; with one kernel for both all is well.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

namespaces 2
make_key
train_options 2

# pair CORETYPE_1 CORETYPE_2 EXCHANGE STATUS
pair() {
    local pids_here=()
    OPENBLAS_CORETYPE=$1 worker 1 --exchange "$3"
    pids_here+=("$last_pid")
    OPENBLAS_CORETYPE=$2 worker 2 --exchange "$3"
    pids_here+=("$last_pid")
    must_end "${pids_here[0]}" 60 "$4" w1
    must_end "${pids_here[1]}" 60 "$4" w2
}

if ! grep -qw avx2 /proc/cpuinfo; then
    echo "skipped: only one kind of kernel here"
    exit 77
fi
for exchange in factors sharded; do
    pair Nehalem Haswell "$exchange" 1
    cat "$work"/w?.err | grep -q "kernel 'Nehalem'.*with 'Haswell'.*OPENBLAS_CORETYPE" || fail "the kernels are not named"
    pair Nehalem Nehalem "$exchange" 0
done
pair Nehalem Haswell auto 0
has_event "$work/w1.out" exchange same_kernels false || fail "auto does not say that kernels differ"
[ "$(field "$work/w1.out" exchange kind)" != factors ] || fail "auto takes factors with different kernels"
[ "$(field "$work/w1.out" done digest)" = "$(field "$work/w2.out" done digest)" ] || fail "the models differ"
echo "different kernels: refused where it matters, and $(field "$work/w1.out" exchange kind) otherwise"
