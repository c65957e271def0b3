#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes an experiment's folder that looks like one of muster compare: numbers drawn from a seed, for tests and for
looking at the report without a cluster."""
import argparse
import csv
import json
import math
import pathlib
import random
import time

NODES = ["node1", "node2", "node3"]
LABELS = {
    "bare": ("bare metal", "process", "host"),
    "bare-again": ("bare metal, again", "process", "host"),
    "container": ("containers, overlay", "container", "overlay"),
    "container-host": ("containers, host network", "container", "host"),
}
BEGIN = 1796000000.0


def stamp(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def write_csv(path, header, rows):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


class Run:
    """One run folder: its workers' numbers follow from a step's time and the share of it that is exchange."""

    def __init__(self, rng, folder, mode, workload, step_ms, exchange_ms, begin, options):
        self.rng, self.folder, self.mode, self.workload, self.begin = rng, folder, mode, workload, begin
        self.step_ms, self.exchange_ms, self.options = step_ms, exchange_ms, options
        self.kind = LABELS[mode][1]
        self.events = []

    def slot(self, place):
        return f"workload{self.workload}_w{place + 1}.1" if self.kind == "container" else NODES[place]

    def write(self):
        self.folder.mkdir(parents=True)
        discovery = {"process": 0.31, "container": 0.42}[self.kind]
        epoch_ends, workers = [], []
        t = self.begin + 0.2 + discovery + 0.05
        epochs = []
        for epoch in range(self.options.epochs):
            steps = [
                max(1.0, self.rng.lognormvariate(math.log(self.step_ms), 0.12)) for _ in range(self.options.steps)
            ]
            t += sum(steps) / 1000
            epoch_ends.append(t)
            epochs.append(steps)
        for place, node in enumerate(NODES):
            self.write_worker(place, node, epochs, epoch_ends, discovery)
            workers.append(
                {"slot": self.slot(place), "node": node, "state": "done", "rank": place, "digest": "5a" * 32}
            )
        end = epoch_ends[-1] + 0.4
        (self.folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in self.events))
        (self.folder / "run.json").write_text(
            json.dumps(
                {
                    "format": 1,
                    "muster": "0.1.0",
                    "stack": f"workload{self.workload}",
                    "result": "done",
                    "reason": None,
                    "started": stamp(self.begin - 5),
                    "ended": stamp(end),
                    "timings": {"until_trained_seconds": end - self.begin + 5, "total_seconds": end - self.begin + 6},
                    "test_accuracy": 0.91,
                    "engine": {"version": "20.10.24"},
                    "workers": workers,
                },
                indent=1,
            )
        )
        self.write_stats(end)
        return end

    def write_worker(self, place, node, epochs, ends, discovery):
        slot, rows, steps_rows, number = self.slot(place), [], [], 0
        shift = 3600 if place == 2 else 0  # one node's clock is an hour ahead: nothing may depend on it
        start = self.begin + shift + 0.2
        self.events.append({"event": "start", "t": start, "slot": slot, "pid_age_ms": 200.0, "version": "0.1.0"})
        compute_all = exchange_all = 0.0
        for epoch, steps in enumerate(epochs):
            exchange = [min(0.9 * ms, self.exchange_ms * self.rng.uniform(0.9, 1.1)) for ms in steps]
            compute = [ms - x - 0.05 for ms, x in zip(steps, exchange)]
            seconds = sum(steps) / 1000
            compute_all, exchange_all = compute_all + sum(compute), exchange_all + sum(exchange)
            rows.append(
                [
                    slot,
                    place,
                    1,
                    epoch + 1,
                    len(steps),
                    f"{seconds:.6f}",
                    f"{1000 * seconds / len(steps):.6f}",
                    f"{2.3 * 0.8 ** epoch:.6g}",
                    f"{1 - 0.8 ** (epoch + 1):.6g}",
                    f"{sum(exchange) / 3:.3f}",
                    f"{sum(exchange) * 2 / 3:.3f}",
                    f"{sum(compute):.3f}",
                    7400000 * len(steps),
                ]
            )
            for ms, x, c in zip(steps, exchange, compute):
                number += 1
                steps_rows.append(
                    [
                        slot,
                        place,
                        1,
                        epoch + 1,
                        number,
                        f"{ms:.3f}",
                        1,
                        0.5,
                        f"{c:.3f}",
                        f"{x / 3:.3f}",
                        f"{x * 2 / 3:.3f}",
                        7400000,
                    ]
                )
            self.events.append(
                {
                    "event": "epoch",
                    "t": round(ends[epoch] + shift, 3),
                    "slot": slot,
                    "epoch": epoch + 1,
                    "epochs": len(epochs),
                }
            )
        between = sum(map(sum, epochs)) - compute_all - exchange_all
        saving = self.rng.uniform(90, 120)
        parts = {
            "start_ms": 120.0,
            "load_ms": 80.0,
            "discovery_ms": 1000 * discovery,
            "connect_ms": 50.0,
            "compute_ms": compute_all,
            "exchange_ms": exchange_all * 2 / 3,
            "wait_ms": exchange_all / 3,
            "between_ms": between,
            "verify_ms": 4.0,
            "validation_ms": 0.0,
            "saving_ms": saving,
            "test_ms": 150.0,
            "recovery_ms": 0.0,
        }
        self.events.append(
            {"event": "profile", "t": ends[-1] + shift + 0.3, "slot": slot, **parts, "total_ms": sum(parts.values())}
        )
        self.events.append({"event": "done", "t": ends[-1] + shift + 0.3, "slot": slot})
        write_csv(
            self.folder / f"history-{slot}.csv",
            "slot,rank,view,epoch,steps,seconds,ms_per_step,loss,accuracy,wait_ms,transfer_ms,compute_ms,bytes_sent".split(
                ","
            ),
            rows,
        )
        if self.options.step_log:
            write_csv(
                self.folder / f"steps-{slot}.csv",
                "slot,rank,view,epoch,step,ms,loss,accuracy,compute_ms,wait_ms,transfer_ms,bytes_sent".split(","),
                steps_rows,
            )

    def write_stats(self, end):
        rows, node_rows = [], []
        for place, node in enumerate(NODES):
            shift, cpu, rx = (3600 if place == 2 else 0), 0.0, 0
            others = [(f"workload{self.workload}_monitor", "monitor", 1.5)] if self.kind == "container" else []
            for second in range(int(end - self.begin) + 2):
                busy = 92 + self.rng.uniform(-5, 5) if 1 <= second < end - self.begin - 0.5 else 3.0
                cpu, rx = cpu + busy / 100, rx + int(busy * 800000)
                slot = self.slot(place)
                rows.append(
                    [
                        f"{self.begin + shift + second:.3f}",
                        node,
                        f"workload{self.workload}",
                        slot.split(".")[0],
                        slot,
                        f"{place:064x}",
                        slot + ".abc",
                        "" if second == 0 else f"{busy:.2f}",
                        f"{cpu:.9f}",
                        180000000,
                        1073741824,
                        rx,
                        int(rx * 1.01),
                        rx // 1400,
                        rx // 1400,
                    ]
                )
                for service, name, use in others:
                    rows.append(
                        [
                            f"{self.begin + shift + second:.3f}",
                            node,
                            f"workload{self.workload}",
                            service,
                            f"{service}.{'a' * 24}{place}",
                            f"{place + 16:064x}",
                            f"{name}.x",
                            "" if second == 0 else use,
                            second * use / 100,
                            9000000,
                            1073741824,
                            second * 900,
                            second * 700,
                            second,
                            second,
                        ]
                    )
                node_rows.append(
                    [
                        f"{self.begin + shift + second:.3f}",
                        node,
                        f"{busy + 6:.2f}",
                        "0.3",
                        "1.2",
                        rx + second * 1000,
                        int(rx * 1.01),
                    ]
                )
        write_csv(
            self.folder / "stats.csv",
            "time,node,stack,service,slot,container,name,cpu_percent,cpu_seconds_total,memory_bytes,memory_limit_bytes,rx_bytes,tx_bytes,rx_packets,tx_packets".split(
                ","
            ),
            rows,
        )
        write_csv(
            self.folder / "nodes.csv",
            "time,node,cpu_percent,steal_percent,load1,rx_bytes,tx_bytes".split(","),
            node_rows,
        )


def noise(rng):
    def around():
        return {
            "seconds": 2.0,
            "steal_percent": rng.uniform(0, 0.3),
            "busy_percent": rng.uniform(1, 3),
            "other_percent": None,
            "mhz": rng.uniform(2880, 2910),
            "load1": rng.uniform(0.1, 0.4),
        }

    return [
        {
            "node": node,
            "before": around(),
            "after": around(),
            "during": {
                "seconds": 30.0,
                "steal_percent": rng.uniform(0, 1),
                "busy_percent": rng.uniform(90, 97),
                "other_percent": rng.uniform(1, 4),
                "mhz": rng.uniform(2880, 2910),
                "load1": rng.uniform(1, 2),
            },
        }
        for node in NODES
    ]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--steps", type=int, default=70)
    parser.add_argument("--workloads", default="1,2")
    parser.add_argument("--modes", default="bare,container,container-host")
    parser.add_argument("--overhead", type=float, default=0.06, help="of containers on the overlay, over a step")
    parser.add_argument("--outlier", action="store_true")
    parser.add_argument("--no-step-log", dest="step_log", action="store_false")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    modes, runs, now = options.modes.split(","), [], BEGIN
    for workloads in map(int, options.workloads.split(",")):
        order = [(0, True, mode) for mode in modes]
        for repeat in range(1, options.repeats + 1):
            order += [(repeat, False, mode) for mode in (modes if repeat % 2 else modes[::-1])]
        for position, (repeat, is_warmup, mode) in enumerate(order):
            number = len(runs) + 1
            extra = {"container": options.overhead, "container-host": 0.012}.get(mode, 0)
            base = 36.0 * (1.75 if workloads == 2 else 1) * rng.lognormvariate(0, 0.008) * (1 + 0.001 * position)
            if options.outlier and repeat == 2 and mode == modes[0] and workloads == 1:
                base *= 1.3
            folders = []
            for workload in range(1, workloads + 1):
                name = f"runs/{number:03d}-{mode}-{workload}"
                step = base * (1 + extra)
                end = Run(
                    rng, options.out / name, mode, workload, step, 0.3 * base + 0.9 * extra * base, now + 6, options
                ).write()
                folders.append({"workload": workload, "folder": name})
            runs.append(
                {
                    "number": number,
                    "series": f"w{workloads}-ring",
                    "mode": mode,
                    "workloads": workloads,
                    "exchange": "ring",
                    "repeat": repeat,
                    "position": max(0, position - len(modes) + 1),
                    "attempt": 1,
                    "warmup": is_warmup,
                    "state": "complete",
                    "reason": None,
                    "started": stamp(now),
                    "ended": stamp(end),
                    "folders": folders,
                    "launch_seconds": (4.2 if LABELS[mode][1] == "container" else 0.6) + rng.uniform(0, 0.3),
                    "total_seconds": end - now + 1.5,
                    "noise": noise(rng),
                }
            )
            now = end + 8
    experiment = {
        "format": 1,
        "muster": "0.1.0",
        "name": options.out.name,
        "started": stamp(BEGIN),
        "ended": stamp(now),
        "state": "complete",
        "reason": None,
        "command": [
            "muster",
            "compare",
            "-c",
            "workload1.yml",
            "--repeats",
            str(options.repeats),
            "--launcher",
            "ssh {host} {cmd}",
        ],
        "baseline": modes[0],
        "modes": [
            {"name": mode, "label": LABELS[mode][0], "kind": LABELS[mode][1], "network": LABELS[mode][2]}
            for mode in modes
        ],
        "asked": {
            "repeats": options.repeats,
            "warmups": 1,
            "workloads": [int(w) for w in options.workloads.split(",")],
            "exchanges": ["ring"],
            "seed": 1,
        },
        "limits": {"cpus": 1.0, "memory_bytes": 1073741824},
        "machine": {
            "host": {"name": "node1", "kernel": "6.1.0", "architecture": "x86_64", "cpus": 2},
            "nodes": [
                {
                    "hostname": node,
                    "address": f"10.0.0.{i + 1}",
                    "kernel": "6.1.0",
                    "congestion": "cubic",
                    "cpu_model": "A processor <of 2 GHz>",
                    "cpus": 2,
                    "memory_bytes": 4 << 30,
                    "engine": "20.10.24",
                    "agent_version": "0.1.0",
                    "clock_offset_ms": 3600000 if i == 2 else 1,
                }
                for i, node in enumerate(NODES)
            ],
        },
        "warnings": ["node3's clock is 3600 s ahead of this machine's: times of different nodes are not compared"],
        "runs": runs,
    }
    (options.out / "experiment.json").write_text(json.dumps(experiment, indent=1) + "\n")


main()
