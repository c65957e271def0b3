#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An Open MPI program over three machines without ssh: mpirun on the chief reaches the others through the agents. Its
# status is the chief's; the others serve, and end with it.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

need_command mpirun openmpi-bin
need_command mpicc libopenmpi-dev
command -v ssh >/dev/null && echo "(an ssh is installed here; nobody listens for it)"
namespaces 3
make_key
mpicc -O1 -o "$work/allreduce" "$(dirname "$0")/allreduce.c"
chmod 755 "$work" # whoever runs this need not be root
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# round STATUS CMD...; FRAMEWORK may be set
round() {
    local wanted=$1 i
    shift
    rm -f "$work"/w?.out
    workers=()
    for i in 1 2 3; do
        exec_worker "$i" --workers 3 --framework "${FRAMEWORK:-mpi}" -- "$@"
        workers+=("$last_pid")
    done
    all_end 60 "$wanted" "${workers[0]}"
    all_end 20 "$((wanted > 0))" "${workers[1]}" "${workers[2]}"
}

# Nothing but the program: the hosts, how to reach them and by which network come from the environment.
round 0 mpirun "$work/allreduce"
for rank in 0 1 2; do
    says w1.out "rank $rank of 3: the sum is 6"
done
[ ! -s "$work/w2.out" ] || fail "w2's own output is not empty: it only serves"
grep -q "w1 launches a program here" "$work/w3.err" || fail "nothing was launched on w3"

# A program that fails somewhere: mpirun's status.
round 17 mpirun sh -c 'exit $((OMPI_COMM_WORLD_RANK == 2 ? 17 : 0))'

# The launch agent by itself.
# shellcheck disable=SC2016
round 0 sh -c '$MUSTER_RSH w3 "echo from \$MUSTER_SLOT" && $MUSTER_RSH 10.99.0.2 "echo from \$MUSTER_SLOT; cat" <"$MUSTER_HOSTFILE"'
says w1.out "from w3" "from w2" "10.99.0.3 slots=1"
# shellcheck disable=SC2016
round 255 sh -c '$MUSTER_RSH 10.99.0.9 true'
grep -q "'10.99.0.9' is no other worker of this view" "$work/w1.err" || fail "rsh does not say what is wrong"
# As horovodrun calls it.
# shellcheck disable=SC2016
FRAMEWORK=horovod round 0 sh -c 'ssh -o PasswordAuthentication=no -o StrictHostKeyChecking=no 10.99.0.3 "bash -c \"echo from \\\$MUSTER_SLOT\"" && which ssh'
says w1.out "from w3"
grep -q "/muster-exec.*/ssh$" "$work/w1.out" || fail "another ssh was called"
nothing_left orted
echo "mpirun reached everybody"
