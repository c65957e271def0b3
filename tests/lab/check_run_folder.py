#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a run folder the way a stranger would, from the formats' descriptions alone, and says what is wrong.

    check_run_folder.py FOLDER STACK WORKERS EPOCHS STEPS
"""

import csv
import hashlib
import json
import math
import pathlib
import re
import struct
import sys
import xml.etree.ElementTree as ElementTree

import numpy

HISTORY = "slot,rank,view,epoch,steps,seconds,ms_per_step,loss,accuracy,wait_ms,transfer_ms,compute_ms,bytes_sent"
STATS = ("time,node,stack,service,slot,container,name,cpu_percent,cpu_seconds_total,memory_bytes,"
         "memory_limit_bytes,rx_bytes,tx_bytes,rx_packets,tx_packets")
MODEL = {"conv2d_1.weight": (3, 3, 1, 32), "conv2d_1.bias": (32,),
         "dense_1.weight": (26 * 26 * 32, 128), "dense_1.bias": (128,),
         "dense_2.weight": (128, 10), "dense_2.bias": (10,)}

problems = []


def check(is_so, text):
    if not is_so:
        problems.append(text)


def check_model(path):
    """The safetensors layout: u64 length, JSON header, then the tensors' bytes without gaps."""
    data = path.read_bytes()
    header_bytes, = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + header_bytes])
    body = data[8 + header_bytes:]
    metadata = header.pop("__metadata__")
    check(all(isinstance(value, str) for value in metadata.values()), "model: metadata that is no text")
    check((8 + header_bytes) % 8 == 0, "model: tensors do not start at a multiple of 8")
    check({name: tuple(t["shape"]) for name, t in header.items()} == MODEL, f"model: tensors {header}")
    end = 0
    parameters = b""
    for name, tensor in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        first, last = tensor["data_offsets"]
        check(tensor["dtype"] == "F32", f"model: {name} is {tensor['dtype']}")
        check(first == end, f"model: {name} starts at {first}, not at {end}")
        check(last - first == 4 * math.prod(tensor["shape"]), f"model: {name} has {last - first} bytes")
        values = numpy.frombuffer(body[first:last], dtype="<f4").reshape(tensor["shape"])
        check(bool(numpy.isfinite(values).all()), f"model: {name} is not finite")
        check(float(numpy.abs(values).max()) > 0, f"model: {name} is all zero")
        parameters += body[first:last]
        end = last
    check(len(body) == end, f"model: {len(body)} bytes for tensors of {end}")
    return hashlib.sha256(parameters).hexdigest()


def number(row, key, least=0.0, most=math.inf):
    value = float(row[key])
    check(math.isfinite(value) and least <= value <= most, f"{key} of {row} is not within {least} and {most}")
    return value


def rows_of(path, header):
    lines = path.read_text().splitlines()
    check(lines[0] == header, f"{path.name}: header '{lines[0]}'")
    return list(csv.DictReader(lines))


def check_history(path, slot, rank, epochs, steps):
    rows = rows_of(path, HISTORY)
    check([int(row["epoch"]) for row in rows] == list(range(1, epochs + 1)), f"{path.name}: epochs {rows}")
    for row in rows:
        check(row["slot"] == slot, f"{path.name}: slot {row['slot']}")
        check(int(row["rank"]) == rank, f"{path.name}: rank {row['rank']}, not {rank}")
        check(int(row["view"]) >= 1 and int(row["steps"]) == steps, f"{path.name}: {row}")
        seconds = number(row, "seconds", 1e-6, 600)
        ms = number(row, "ms_per_step", 1e-3, 60000)
        check(abs(ms * steps / 1000 - seconds) < 0.01 + 0.01 * seconds, f"{path.name}: {ms} ms a step in {seconds} s")
        number(row, "loss", 0, 100)
        number(row, "accuracy", 0, 1)
        parts = sum(number(row, key) for key in ("wait_ms", "transfer_ms", "compute_ms"))
        check(parts <= 1000 * seconds * 1.05 + 5, f"{path.name}: {parts} ms of {seconds} s")
        number(row, "bytes_sent", 1)
    return [(row["loss"], row["accuracy"]) for row in rows]


def check_xml(path, own_slot, workers):
    """workers: address -> slot of all. Nobody else may be named, and somebody else must be there: the gateway.
    A worker that appeared after the sweep is missing, for then it found this one. Returns who is there."""
    root = ElementTree.parse(path).getroot()
    check(root.tag == "nmaprun", f"{path.name}: root {root.tag}")
    hosts = {}
    for host in root.findall("host"):
        check(host.find("status").get("state") == "up", f"{path.name}: a host that is not up")
        address = host.find("address[@addrtype='ipv4']").get("addr")
        check(address not in hosts, f"{path.name}: {address} twice")
        hosts[address] = [name.get("name") for name in host.findall("hostnames/hostname")]
        check(len(hosts[address]) <= 1, f"{path.name}: {address} has {hosts[address]}")
    for address, names in hosts.items():
        check(not names or workers.get(address) == names[0], f"{path.name}: {address} is called {names}")
    for address, slot in workers.items():
        check(slot == own_slot or hosts.get(address) in (None, [slot]), f"{path.name}: worker {slot} at {address} has no name")
    gateway = ".".join(next(iter(workers)).split(".")[:3] + ["1"])
    check(hosts.get(gateway) == [], f"{path.name}: gateway {gateway}: {hosts.get(gateway)}")
    others = hosts.keys() - workers.keys()
    check(len(others) >= 3, f"{path.name}: of gateway, collector and one load-balancer endpoint a node only {others}")
    finished = root.find("runstats/finished")
    check(finished is not None and finished.get("exit") == "success", f"{path.name}: not finished")
    up = root.find("runstats/hosts")
    check(int(up.get("up")) == len(hosts), f"{path.name}: {up.get('up')} up, {len(hosts)} listed")
    return {workers[address] for address in hosts.keys() & workers.keys()}


def check_stats(path, stack, slots):
    rows = rows_of(path, STATS)
    before = {}
    for row in rows:
        check(row["stack"] == stack, f"stats.csv: stack {row['stack']}")
        check(re.fullmatch("[0-9a-f]{64}", row["container"]), f"stats.csv: container {row['container']}")
        check(row["name"].startswith(row["slot"] + "."), f"stats.csv: {row['name']} of slot {row['slot']}")
        last = before.get(row["container"])
        check((row["cpu_percent"] == "") == (last is None), f"stats.csv: cpu_percent of {row}")
        if last:
            number(row, "cpu_percent", 0, 6400)
            for key in ("time", "cpu_seconds_total", "rx_bytes", "tx_bytes", "rx_packets", "tx_packets"):
                check(float(row[key]) >= float(last[key]), f"stats.csv: {key} runs backwards: {row}")
        before[row["container"]] = row
        number(row, "cpu_seconds_total", 1e-6, 3600)
        number(row, "memory_bytes", 4096, number(row, "memory_limit_bytes", 4096))
        for amount, packets in (("rx_bytes", "rx_packets"), ("tx_bytes", "tx_packets")):
            check((number(row, amount) > 0) == (number(row, packets) > 0), f"stats.csv: {amount} without packets: {row}")
    seen = {row["slot"] for row in rows}
    check(slots <= seen, f"stats.csv: nothing of {slots - seen}")
    last = {row["slot"]: row for row in rows}
    for slot in slots & seen:
        check(float(last[slot]["rx_bytes"]) > 0, f"stats.csv: {slot} received nothing")
    return len(rows)


def check_events(path, slots, epochs, digest):
    events = [json.loads(line) for line in path.read_text().splitlines()]
    for slot in slots:
        own = [event for event in events if event.get("slot") == slot]
        names = [event["event"] for event in own]
        check(names[:1] == ["start"] and names[-1:] == ["done"], f"events.jsonl: of {slot}: {names}")
        check(names.count("epoch") == epochs, f"events.jsonl: {names.count('epoch')} epochs of {slot}")
        check(bool(own) and own[-1].get("digest") == digest, f"events.jsonl: digest of {slot}")


def main():
    folder, stack, count, epochs, steps = (pathlib.Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:6]))
    run = json.loads((folder / "run.json").read_text())
    workers = run["workers"]
    slots = {worker["slot"] for worker in workers}
    check(run["format"] == 1 and run["result"] == "done" and run["stack"] == stack, f"run.json: {run}")
    check(len(slots) == count, f"run.json: workers {slots}")
    check(sorted(worker["rank"] for worker in workers) == list(range(count)), "run.json: ranks")
    check(all(worker["state"] == "done" for worker in workers), "run.json: a worker is not done")
    check(all(worker["steps"] == epochs * steps for worker in workers), "run.json: steps")
    # Numeric order over the whole address is the order of ranks.
    by_rank = sorted(workers, key=lambda worker: worker["rank"])
    order = [tuple(map(int, worker["address"].split("."))) for worker in by_rank]
    check(order == sorted(order), f"run.json: not in order of addresses: {order}")
    check([member["slot"] for member in run["members"]] == [worker["slot"] for worker in by_rank], "run.json: members")
    check(run["digests_equal"] is True, "run.json: digests differ")
    check(0 < run["timings"]["sweep_ms"] < 5000, f"run.json: sweep_ms {run['timings']}")
    check(0 < run["timings"]["first_step_ms"] < 60000, f"run.json: first_step_ms {run['timings']}")
    check(0 <= run["test_accuracy"] <= 1, f"run.json: test_accuracy {run['test_accuracy']}")

    digest = check_model(folder / "model.safetensors")
    check({worker["digest"] for worker in workers} == {digest}, "the model's digest is not the workers'")
    check(set(path.name for path in folder.glob("history-*.csv")) == {f"history-{slot}.csv" for slot in slots}, "histories")
    check(set(path.name for path in folder.glob("ips-*.xml")) == {f"ips-{slot}.xml" for slot in slots}, "ips-*.xml")
    curves = [check_history(folder / f"history-{worker['slot']}.csv", worker["slot"], worker["rank"], epochs, steps)
              for worker in workers]
    check(all(curve == curves[0] for curve in curves), f"losses differ between workers: {curves}")
    addresses = {worker["address"]: worker["slot"] for worker in by_rank}
    seen = {slot: check_xml(folder / f"ips-{slot}.xml", slot, addresses) for slot in slots}
    for one in slots:
        for other in slots - {one}:
            check(one in seen[other] or other in seen[one], f"neither {one} nor {other} saw the other")
    rows = check_stats(folder / "stats.csv", stack, slots)
    check(run["stats_rows"] == rows, f"run.json: {run['stats_rows']} rows of stats.csv, not {rows}")
    check(run["collected_files"] == 2 * count + 1, f"run.json: {run['collected_files']} files collected")
    check_events(folder / "events.jsonl", slots, epochs, digest)
    known = {"run.json", "events.jsonl", "model.safetensors"}
    check(all(path.name in known or path.suffix in (".csv", ".xml") for path in folder.iterdir()), "unknown files")
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


main()
