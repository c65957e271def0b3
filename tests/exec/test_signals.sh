#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Signals reach the program. One that is told to go leaves: its own status is returned, and the others start anew without
# it where the number is not fixed.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

namespaces 3
make_key
cat >"$work/program.sh" <<'P'
trap 'echo usr1; kill $!' USR1
trap 'echo hup; kill $!' HUP
trap 'echo term; exit 9' TERM
trap 'exit 8' USR2
echo "world $MUSTER_WORLD"
while :; do
    sleep 1 & wait $!
done
P
workers=()
for i in 1 2 3; do
    exec_worker "$i" --workers 2:3 -- sh "$work/program.sh"
    workers+=("$last_pid")
done
for i in 1 2 3; do
    wait_for 40 "$work/w$i.out" "world 3"
done
kill -USR1 "${workers[0]}"
wait_for 20 "$work/w1.out" usr1
kill -HUP "${workers[0]}"
wait_for 20 "$work/w1.out" hup

# Told to go: its status is what its program makes of that.
kill -TERM "${workers[2]}"
all_end 20 9 "${workers[2]}"
says w3.out term
for i in 1 2; do
    wait_for 40 "$work/w$i.out" "world 2"
done
told "$work/w1.err" view cause left || fail "w1 took the leaver for a lost one"
# The supervisor cannot pass KILL on, but its program does not outlive it.
kill -KILL "${workers[1]}"
finish "${workers[1]}" 10
deadline=$((SECONDS + 20))
while ip netns pids "$prefix-2" | grep -q .; do
    [ "$SECONDS" -lt "$deadline" ] || fail "something of w2 is left: $(ip netns pids "$prefix-2")"
    read -r -t 0.05 <> <(:) || true
done
kill -INT "${workers[0]}"
finish "${workers[0]}" 20
nothing_left "$work/program.sh"
echo "signals went through"
