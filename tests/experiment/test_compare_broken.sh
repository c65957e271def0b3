#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Experiments that break: a worker fails, a launcher dies in the middle, Ctrl-C, and SIGKILL; and go on.
# shellcheck disable=SC2119
# shellcheck source=tests/experiment/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

hung() { [[ -s $control/hung ]]; }
agent_gone() { ! kill -0 "$(<"$control/hung")" 2>/dev/null; }

say "- a worker that fails: recorded with its reason, and made again"
touch "$control/fail-host2"
begin_compare
finish 0 "failed \(attempt 1 of 3\): worker 'host2': the disk is full"
expect "$(asked '[(r["mode"], r["attempt"], r["state"]) for r in e["runs"]]')" \
    "[('bare', 1, 'failed'), ('bare', 2, 'complete'), ('bare-2', 1, 'complete')]" runs
expect_nothing_left
rm -r "$work/experiment"

say "- one that always fails: the rest is made, status 7"
begin_compare --attempts 1 -e X=1
touch "$control/fail-host1"
finish 7 '1 of 2 runs failed'
expect "$(asked 'e["state"], [r["state"] for r in e["runs"]]')" "('failed', ['failed', 'complete'])" runs
rm -r "$work/experiment"

say "- a launcher that is killed in the middle"
touch "$control/hang-host2"
begin_compare
wait_until 30 "the worker to hang" hung || fail "no run began"
kill -KILL "$(tail -n 1 "$control/pids-host2")"
finish 0 "failed \(attempt 1 of 3\): host 'host2': the connection broke in the middle of 'train'"
agent_gone || fail "the agent that the launcher left is still there"
expect_nothing_left
rm -r "$work/experiment" "$control/hung"

say "- Ctrl-C: told to stop in order, and it goes on later"
touch "$control/hang-host1"
begin_compare
wait_until 30 "the worker to hang" hung || fail "no run began"
kill -INT -- "-$running"
finish 130 "interrupted: 'muster compare --resume .*experiment' goes on"
[[ -e $control/stopped ]] || fail "the agent was not told to stop"
expect "$(asked 'e["state"], e["runs"][0]["state"]')" "('interrupted', 'interrupted')" state
expect_nothing_left
rm "$control/hung" "$control/stopped"

say "- SIGKILL in the middle of what goes on"
touch "$control/hang-host2"
begin_compare
wait_until 30 "the worker to hang" hung || fail "no run began"
kill -KILL "$running"
wait "$running" 2>/dev/null || true
running=''
wait_until 30 "the agent to be ended" agent_gone || fail "the agent outlives its experiment"
expect "$(asked 'e["state"], e["runs"][1]["state"]')" "('unfinished', 'running')" state

say "- and again, by its folder's name alone"
: >"$work/out"
setsid "$MUSTER" compare --resume "$work/experiment" >"$work/out" 2>&1 </dev/null &
running=$!
finish 0 "going on with .*: 0 of 2 runs are complete"
expect "$(asked '[(r["number"], r["mode"], r["attempt"], r["state"]) for r in e["runs"]]')" \
    "[(1, 'bare', 1, 'interrupted'), (2, 'bare', 2, 'interrupted'), (3, 'bare', 3, 'complete'), $(:
    )(4, 'bare-2', 1, 'complete')]" runs
expect_nothing_left
