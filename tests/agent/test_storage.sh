#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Disks that fill up, a collector that dies, and one that comes late: everybody ends with a reason, and no half file
# stays behind.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

namespaces 4
make_key
train_options 2
# The test's own mount goes away before the folder does; cleanup() ends with the status that it finds.
unmount() {
    local status=$?
    set +e
    umount -q "$work/tiny" 2>/dev/null
    (exit "$status")
    cleanup
}
trap unmount EXIT
mkdir "$work/tiny"
mount -t tmpfs -o size=1m tmpfs "$work/tiny" 2>/dev/null || {
    [ -z "${CI:-}" ] || fail "no right to mount a small disk, and CI is set"
    echo "skipped: no right to mount a small disk"
    exit 77
}

collect=(collect --subnet 10.99.0.0/24 --user none --key-file "$work/key")

# The worker's disk holds the history but not the model.
worker 1
pid_of[1]=$last_pid
agent w2 2 train "${common[@]}" --out "$work/tiny"
pid_of[2]=$last_pid
must_end "${pid_of[2]}" 20 1 "the worker with the full disk"
must_end "${pid_of[1]}" 20 0 "its peer, which goes on alone"
has_event "$work/w2.out" failed reason "No space left" || fail "w2 does not say that its disk is full"
has_event "$work/w1.out" lost reason "No space left" || fail "w1 does not say why w2 is lost"
[ -z "$(find "$work/tiny" -name '*.safetensors*')" ] || fail "half a model stays behind: $(ls "$work/tiny")"
rm -rf "${work:?}"/tiny/* "${work:?}"/w1

# The collector's disk is full.
agent collector 3 "${collect[@]}" --out "$work/tiny"
pid_of[3]=$last_pid
wait_for 5 "$work/collector.out" listening
for i in 1 2; do
    worker "$i" --collect
    pid_of[i]=$last_pid
done
for i in 1 2; do
    must_end "${pid_of[i]}" 20 1 "w$i, whose files are not taken"
    [ -s "$work/w$i/model.safetensors" ] || fail "w$i lost its own model"
done
grep -q "No space left" "$work/collector.err" || fail "the collector does not say that its disk is full"
kill -0 "${pid_of[3]}" || fail "the collector ended"
[ -z "$(find "$work/tiny" -name '*.safetensors*')" ] || fail "half a model stays behind: $(find "$work/tiny")"
grep -q '"event":"collected"' "$work/collector.out" && fail "the collector says that it has all"

# The collector is killed while they train, and the next one takes its place.
kill -KILL "${pid_of[3]}"
finish "${pid_of[3]}" 5
rm -rf "${work:?}"/w1 "${work:?}"/w2
agent dying 3 "${collect[@]}" --out "$work/dying"
pid_of[3]=$last_pid
wait_for 5 "$work/dying.out" listening
for i in 1 2; do
    worker "$i" --collect --steps 40
    pid_of[i]=$last_pid
done
for i in 1 2; do
    wait_for 20 "$work/w$i.out" '"event":"first_step"'
done
kill -KILL "${pid_of[3]}"
finish "${pid_of[3]}" 5
agent next 3 "${collect[@]}" --out "$work/next"
pid_of[3]=$last_pid
for i in 1 2; do
    must_end "${pid_of[i]}" 20 0 "w$i, whose collector was replaced"
done
kill -TERM "${pid_of[3]}"
must_end "${pid_of[3]}" 5 0 "the new collector"
[ -s "$work/next/muster/model.safetensors" ] || fail "the new collector lacks the model"
[ "$(field "$work/next.out" collected files)" -eq 5 ] || fail "the new collector does not have five files"

# It never comes back.
rm -rf "${work:?}"/w1 "${work:?}"/w2
agent gone 3 "${collect[@]}" --out "$work/gone"
pid_of[3]=$last_pid
wait_for 5 "$work/gone.out" listening
for i in 1 2; do
    worker "$i" --collect --steps 40
    pid_of[i]=$last_pid
done
for i in 1 2; do
    wait_for 20 "$work/w$i.out" '"event":"first_step"'
done
kill -KILL "${pid_of[3]}"
for i in 1 2; do
    must_end "${pid_of[i]}" 20 1 "w$i, whose collector is gone"
    has_event "$work/w$i.out" failed reason collector || fail "w$i does not say that the collector is gone"
    [ -s "$work/w$i/model.safetensors" ] || fail "w$i lost its own model"
done
echo "full disks and dead collectors are told"
