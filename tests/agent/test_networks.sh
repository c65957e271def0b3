#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Three workers on two networks each, the first of which leads to nobody, with keys that are being replaced: they meet on
# the second one. Then with hints only: a file of hosts in place of a sweep that could find them.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

namespaces 4
make_key old
make_key new
train_options 3
mkdir "$work/store"
for i in 1 2 3 4; do
    inside "$i" ip link add eth1 type veth peer name eth1p
    inside "$i" ip link set eth1p up
    inside "$i" ip addr add "10.1.0.$i/24" dev eth1
    inside "$i" ip link set eth1 up
done
options=(--model "$source_dir/trainer/models/mnist-cnn.json" --data "$work/data")
keys1=(--key-file "$work/old")
keys2=(--key-file "$work/new" --old-key-file "$work/old")
keys3=(--key-file "$work/old" --old-key-file "$work/new")
agent collector 4 collect --user none "${keys3[@]}" --out "$work/store"
collector=$last_pid
workers=()
for i in 1 2 3; do
    keys="keys$i[@]"
    agent "w$i" "$i" train "${options[@]}" "${!keys}" --collect --out "$work/w$i"
    workers+=("$last_pid")
done
for pid in "${workers[@]}"; do
    must_end "$pid" 90 0 "a worker"
done
for i in 1 2 3; do
    [ "$(field "$work/w$i.out" start interface)" = eth0 ] || fail "w$i is not on eth0"
    [ "$(field "$work/w$i.out" view world)" -eq 3 ] || fail "w$i is not in a world of three"
    # Whoever came after w$i's sweep is in its list all the same.
    for j in 1 2 3; do
        grep -q "hostname name=\"w$j\"" "$work/w$i/ips-w$i.xml" || fail "w$j is missing in the list of w$i"
    done
done
[ "$(field "$work/collector.out" listening address)" = 10.99.0.4 ] || fail "the collector did not follow"
kill -TERM "$collector"
must_end "$collector" 5 0 "the collector"

# Nobody on any network: told to stop while looking, and out of time.
agent alone 1 train "${options[@]}" "${keys1[@]}" --out "$work/alone"
sleeper=$last_pid
wait_for 20 "$work/alone.out" '"event":"waiting"'
grep -q 'no agent yet on any of: eth1 10.1.0.0/24, eth0 10.99.0.0/24' "$work/alone.out" || fail "the networks are not named"
kill -TERM "$sleeper"
must_end "$sleeper" 5 143 "the agent that was told to stop"
agent late 1 train "${options[@]}" "${keys1[@]}" --out "$work/late" --wait 1500ms
must_end "$last_pid" 30 4 "the agent whose time was over"

# By hand: the one interface, and hosts from a file.
cat >"$work/hosts.xml" <<'XML'
<nmaprun><host><status state="up"/><address addr="10.99.0.1" addrtype="ipv4"/></host>
<host><status state="up"/><address addr="10.99.0.2" addrtype="ipv4"/></host></nmaprun>
XML
MUSTER_WORKERS=2
workers=()
for i in 1 2; do
    agent "x$i" "$i" train "${options[@]}" "${keys1[@]}" --interface '!10.1.0.0/24' --dns nobody.invalid --from-xml "$work/hosts.xml" --out "$work/x$i"
    workers+=("$last_pid")
done
for pid in "${workers[@]}"; do
    must_end "$pid" 90 0 "a worker"
done
echo "the network with the others was found"
