#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How a nuisance changes the time of a step: medians of the phases, from one training's own log of its steps.

    check_rate.py FOLDER FIRST:LAST:quiet FIRST:LAST:attacked ...

Fails only where it is more than twice as slow: how busy the machine is otherwise, a test does not choose.
"""

import csv
import pathlib
import statistics
import sys

GUARD = 2.0


def main():
    paths = sorted(pathlib.Path(sys.argv[1]).glob("steps-*.csv"))
    rows = [row for path in paths for row in csv.DictReader(path.read_text().splitlines())]
    times = {"quiet": [], "attacked": []}
    for phase in sys.argv[2:]:
        first, last, kind = phase.split(":")
        chosen = [float(row["ms"]) for row in rows if int(first) <= int(row["step"]) < int(last)]
        print(f"steps {first} to {last}, {kind}: median {statistics.median(chosen):.1f} ms of {len(chosen)}")
        times[kind] += chosen
    quiet, attacked = (statistics.median(times[kind]) for kind in ("quiet", "attacked"))
    print(f"quiet {quiet:.1f} ms, attacked {attacked:.1f} ms a step: {100 * (attacked / quiet - 1):+.1f} %")
    sys.exit(attacked > GUARD * quiet)


main()
