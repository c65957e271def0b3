#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Started as root, an agent becomes another user for good; without the right to capture packets it searches by TCP.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

namespaces 3
make_key
train_options 3
chmod 755 "$work"
chmod 644 "$work/key"
for i in 1 2 3; do
    mkdir "$work/w$i"
    chown 65532:65532 "$work/w$i"
done
worker 1 --user 65532 --epochs 1000 --steps 1000
pid_of[1]=$last_pid
# Another user from the start, and root without the capability.
exec 3>"$work/w2.out" 4>"$work/w2.err"
inside 2 setpriv --reuid 65532 --regid 65532 --clear-groups --inh-caps=-all --bounding-set=-all "$MUSTER_AGENT" train "${common[@]}" \
    --user 65532 --epochs 1000 --steps 1000 --out "$work/w2" --slot w2 >&3 2>&4 &
pid_of[2]=$!
exec 5>"$work/w3.out" 6>"$work/w3.err"
inside 3 setpriv --bounding-set=-net_raw --inh-caps=-net_raw "$MUSTER_AGENT" train "${common[@]}" --user 65532 \
    --epochs 1000 --steps 1000 --out "$work/w3" --slot w3 >&5 2>&6 &
pid_of[3]=$!
pids+=("${pid_of[2]}" "${pid_of[3]}")
for i in 1 2 3; do
    wait_for 20 "$work/w$i.out" '"event":"first_step"'
    wait_for 10 "$work/w$i.out" '"event":"sweep"'
done
[ "$(field "$work/w1.out" sweep method)" = arp ] || fail "w1 did not sweep by ARP"
for i in 2 3; do
    [ "$(field "$work/w$i.out" sweep method)" = tcp ] || fail "w$i did not sweep by TCP"
    grep -q 'CAP_NET_RAW' "$work/w$i.err" || fail "w$i does not say why it sweeps by TCP"
done
for i in 1 2 3; do
    grep -q "key file '$work/key' has mode 0644: any user of this machine can read the key" "$work/w$i.err" || fail "w$i says nothing of the key's mode"
done
# All of its threads: what one keeps, all keep.
for status in /proc/"${pid_of[1]}"/task/*/status; do
    grep -qP '^Uid:\t65532\t65532\t65532\t65532$' "$status" || fail "uid in $status: $(grep Uid "$status")"
    grep -qP '^Gid:\t65532\t65532\t65532\t65532$' "$status" || fail "gid in $status: $(grep Gid "$status")"
    grep -qP '^Groups:\s*$' "$status" || fail "groups in $status: $(grep Groups "$status")"
    for set in CapInh CapPrm CapEff CapAmb; do
        grep -qP "^$set:\t0+$" "$status" || fail "$(grep "$set" "$status") in $status"
    done
    grep -qP '^NoNewPrivs:\t1$' "$status" || fail "new privileges are possible in $status"
done
kill -TERM "${pid_of[@]}"
for i in 1 2 3; do
    finish "${pid_of[i]}" 5
done
echo "uid 65532, no capabilities; TCP sweep of $(field "$work/w2.out" sweep addresses) addresses in $(field "$work/w2.out" sweep ms) ms"
