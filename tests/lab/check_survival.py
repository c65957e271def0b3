#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The run folder of a training that lost workers: the result is right, and what happened is told.

    check_survival.py FOLDER DIGEST STEPS [SLOT...]

DIGEST is of an undisturbed run. Each SLOT (w2.1) was lost; all that are not said to have left came to the end. Prints how
long the recoveries took.
"""

import json
import math
import pathlib
import sys

problems = []


def check(is_so, text):
    if not is_so:
        problems.append(text)


def number(value):
    return isinstance(value, (int, float)) and math.isfinite(value) and value >= 0


def main():
    folder, digest, steps, slots = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    run = json.loads((folder / "run.json").read_text())
    check(run["result"] == "done", f"result {run['result']}: {run.get('reason')}")
    done = [worker for worker in run["workers"] if worker["state"] == "done"]
    check(len(done) >= 1, "nobody is done")
    for worker in run["workers"]:
        check(worker["state"] in ("done", "left"), f"{worker['slot']} is {worker['state']}: {worker.get('reason')}")
    for worker in done:
        check(worker["steps"] == steps, f"{worker['slot']} ended after step {worker['steps']}, not {steps}")
        check(worker["digest"] == digest, f"{worker['slot']} has digest {worker['digest']}, not {digest}")
    check(run["digests_equal"] is True, "digests differ")
    check((folder / "model.safetensors").exists(), "no model")

    views = []
    for recovery in run["recoveries"]:
        for key in ("detected_ms", "agreed_ms", "ready_ms", "ms", "steps_repeated"):
            check(number(recovery[key]), f"{key} of {recovery}")
        check(recovery["ms"] > 0, f"no time to recover: {recovery}")
        check(recovery["steps_repeated"] <= 1, f"more than a step was repeated: {recovery}")
        check(recovery["world"] >= 1, f"world of {recovery}")
        views.append(recovery["view"])
        names = "; ".join(f"{' '.join(name.split('_', 1)[1] for name in recovery[key])} {key}"
                          for key in ("lost", "left", "joined") if recovery[key])
        print(f"view {recovery['view']}, {recovery['world']} workers ({names}): noticed after {recovery['detected_ms']:.0f} ms,"
              f" agreed {recovery['agreed_ms']:.0f}, ready {recovery['ready_ms']:.0f}, training {recovery['ms']:.0f} ms")
    check(len(views) == len(set(views)), f"a view twice: {views}")
    lost = {name.split("_", 1)[1] for recovery in run["recoveries"] for name in recovery["lost"]}
    for slot in slots:
        check(slot in lost, f"{slot} was not lost, only {sorted(lost)}")
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


main()
