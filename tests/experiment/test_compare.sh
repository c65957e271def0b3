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
say "- the same experiment: nothing is left to do"
warmups=1 begin_compare
finish 0 '4 of 4 runs are complete'
rm -r "$work/experiment"

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
refused agent-host2 1 "'host1' has 'muster-agent 0\.1\.0', 'host2' has 'muster-agent 0\.0\.9'"
refused clock-host2 1 "host 'host2': its clock is 1\.0 h behind"

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
