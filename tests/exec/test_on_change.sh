#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A worker is killed and comes back: test_on_change.sh restart|ignore|stop.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

mode=$1
namespaces 3
make_key
cat >"$work/program.sh" <<'P'
echo "begins in view $MUSTER_VIEW as $MUSTER_RANK of $MUSTER_WORLD"
while [ ! -e "$1" ]; do
    sleep 0.05
done
echo done
P
start() {
    exec_worker "$1" --workers 3 --on-change "$mode" -- sh "$work/program.sh" "$work/go"
}
workers=()
for i in 1 2 3; do
    start "$i"
    workers+=("$last_pid")
done
for i in 1 2 3; do
    wait_for 40 "$work/w$i.out" "as $((i - 1)) of 3"
done
# As if its container were killed: at once, with everything in it.
kill_all 2
finish "${workers[1]}" 10

case $mode in
stop)
    all_end 20 1 "${workers[0]}" "${workers[2]}"
    grep -q "on-change stop" "$work/w1.err" || fail "w1 does not say why it stopped"
    nothing_left "$work/program.sh"
    echo "all stopped"
    exit
    ;;
restart)
    # With a fixed number nothing begins until it is back.
    start 2
    workers[1]=$last_pid
    for i in 1 3; do
        wait_for 40 "$work/w$i.out" "begins in view [2-9]"
    done
    ;;
ignore)
    start 2
    workers[1]=$last_pid
    wait_for 40 "$work/w2.out" "begins in view [2-9]"
    ;;
esac
touch "$work/go"
all_end 40 0 "${workers[@]}"
for i in 1 3; do
    begun=$(grep -c begins "$work/w$i.out")
    if [ "$mode" = restart ]; then
        [ "$begun" -ge 2 ] || fail "w$i: its program was not started again"
        views=$(grep -o "view [0-9]*" "$work/w1.out" "$work/w2.out" "$work/w3.out" | awk '{ print $2 }' | sort -n | tail -n 1)
        grep -q "begins in view $views as $((i - 1)) of 3" "$work/w$i.out" || fail "w$i is not in the last view in its old place"
    else
        [ "$begun" -eq 1 ] || fail "w$i: its program was started again"
    fi
done
echo "$mode: gone on"
