#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Experiments that go well, and the ways in which they do not begin.
# shellcheck disable=SC2119
# shellcheck source=tests/experiment/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

say "- a warm-up and two runs"
warmups=1 begin_compare
finish 0 'run 4 of 4: bare metal, .*repeat 1 of 1|run 4 of 4: bare metal \(2\)' 'are one machine'
expect "$(asked '[(r["mode"], r["repeat"], r["warmup"]) for r in e["runs"] if r["state"] == "complete"]')" \
    "[('bare', 0, True), ('bare-2', 0, True), ('bare', 1, False), ('bare-2', 1, False)]" runs
expect "$(asked 'e["state"], e["baseline"], e["limits"]["cpus"], e["limits"]["memory_bytes"]')" \
    "('complete', 'bare', 0.5, 67108864)" experiment
folder=$work/experiment/$(asked 'e["runs"][2]["folders"][0]["folder"]')
for file in run.json history-host1.csv history-host2.csv events.jsonl nodes.csv model.safetensors; do
    [[ -s $folder/$file ]] || fail "no $file in $folder"
done
expect "$(asked '[(n["node"], n["before"]["seconds"] > 0.5) for n in e["runs"][2]["noise"]]')" \
    "[('host1', True), ('host2', True)]" noise
expect_nothing_left

say "- the same folder for another experiment"
warmups=1 repeats=2 begin_compare
finish 2 "has another experiment: 'repeats' is 1 there, and 2 here"
say "- with another setting in the stack, which is another experiment, too"
stack | sed 's/FAKE_CONTROL/NEW: "1"\n      &/' >"$work/pair.yml"
warmups=1 begin_compare
finish 2 "has another experiment: 'workers_digest' is"
stack >"$work/pair.yml"
say "- the same experiment: nothing is left to do, and what it warned of stays"
warned=$(asked 'e["warnings"]')
warmups=1 begin_compare
finish 0 '4 of 4 runs are complete'
expect "$(asked 'all(w in e["warnings"] for w in '"$warned"')')" True "warnings kept"
rm -r "$work/experiment"

say "- a secret in any form of the option, the folder in one word, and a mask that lets nobody else in"
(
    umask 077
    out=("-o$work/experiment")
    begin_compare --set=API_TOKEN=s3cr1 -eDB_PASSWORD=s3cr2 -e MY_KEY=s3cr3
    finish 0
)
grep -q s3cr "$work/experiment/experiment.json" && fail "a secret is kept"
expect "$(asked '[w for w in e["command"] if "***" in w]')" "['--set=API_TOKEN=***', '-eDB_PASSWORD=***', 'MY_KEY=***']" words
expect "$(asked '[w for w in e["command"] if w.startswith("-o")]')" "[]" "the folder in the command"
rm -r "$work/experiment"

say "- --resume stands alone"
status=0
"$MUSTER" compare "--resume=$work/none" --repeats=9 >"$work/out" 2>&1 || status=$?
expect "$status" 2 status
grep -q "'--resume' stands alone" "$work/out" || fail "does not say why"

# refused MARK STATUS TEXT
refused() {
    say "- $1"
    touch "$control/$1"
    begin_compare
    finish "$2" "$3"
    rm "$control/$1"
    [[ ! -e $work/experiment ]] || fail "an experiment was begun"
}
refused away-host2 1 "host 'host2' is not reached: .*No route to host"
refused version-host2 1 "host 'host2' has muster 0\.0\.9, this machine .*same version"
refused agent-host2 1 "host 'host2' has 'muster-agent 0\.0\.9', this machine muster 0\.1\.0: the same version"
refused clock-host2 1 "host 'host2': its clock is 1\.0 h behind"

say "- agents that are all older than muster"
touch "$control/agent-host1"
refused agent-host2 1 "host 'host1' has 'muster-agent 0\.0\.9', this machine muster 0\.1\.0"
rm "$control/agent-host1"

# differs SED STATUS TEXT: with the stack changed so, nothing begins
differs() {
    say "- a stack with: $1"
    stack | sed "$1" >"$work/pair.yml"
    begin_compare
    finish "$2" "$3"
    stack >"$work/pair.yml"
    [[ ! -e $work/experiment ]] || fail "an experiment was begun"
}
differs '0,/muster-agent, train/s//muster-agent, train, --batch, "64"/' 2 \
    "services\.w1: options after 'muster-agent train' reach no bare worker"
differs "s|^configs: {|&other: {file: $work/data/train.csv}, |; /^  w2/,\$ s/source: model/source: other/" \
    2 'services\.w2: its configs are not those of the other workers'

say "- two stacks of one name, and two with different limits"
mkdir "$work/other"
stack >"$work/other/pair.yml"
begin_compare --workloads 2 -c "$work/other/pair.yml"
finish 2 "both named 'pair': two stacks at once need two names"
stack | sed 's/cpus: "0.5"/cpus: "0.25"/' >"$work/other/second.yml"
begin_compare --workloads 2 -c "$work/other/second.yml"
finish 2 "the workers of 'pair' and 'second' have different limits"

say "- a path that is too long for the runs below it"
(
    out=(--out "$work/$(printf '%0240d' 0)")
    begin_compare
    finish 2 "option '--out': a path of [0-9]+ bytes, expected at most 256"
)

say "- limits that differ"
stack 0.25 >"$work/pair.yml"
begin_compare
finish 2 'services\.w2: its limits are not those of the other workers'
stack >"$work/pair.yml"

say "- a launcher without a command, and a mode that is none"
launcher='ssh {host}' begin_compare
finish 2 "expected a command with \{cmd\} in it"
modes=bare,container-hots begin_compare
finish 2 "did you mean 'container-host'"
