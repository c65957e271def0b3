#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Containers of a real Engine through everything that can happen to them, beside exporters of each source. After each
step every counter on every page lies between two readings of the Engine taken around it, and the pages show the
containers that run, each once and by its present name. All the while the pages are read: no counter falls without a
restart, and no CPU is used faster than there is any.

    monitor_life.py MUSTER_MONITOR SOCKET PIDFILE IMAGE DOCKER START_ENGINE...
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from monitor_engine import Engine, Exporter, PATIENCE_S, of_containers, parse, wait_until
from monitor_proxy import Proxy

MONITOR, SOCKET, PIDFILE, IMAGE, DOCKER, *START_ENGINE = sys.argv[1:]
SOURCES = ("engine", "cgroups", "api")
MEMORY_SLACK = 1 << 20
# Files of some kernel pages each, which are not read in one moment: what they tell may differ by one tick.
TICK_S = 0.011
CPUS = os.cpu_count()
LEVELS = ("container_fs_inodes_total",)

engine = Engine(SOCKET)


def say(text):
    print(f"- {text}", file=sys.stderr, flush=True)


def docker(*arguments):
    done = subprocess.run([DOCKER, "-H", "unix://" + SOCKET, *arguments], capture_output=True, text=True, timeout=120,
                          check=False)
    assert done.returncode == 0, (arguments, done.stderr)
    return done.stdout.strip()


def begin(name, *options, command):
    docker("run", "-d", "--name", name, *options, IMAGE, *command)


class Watch(threading.Thread):
    """Reads a page again and again; what it says may only move on."""

    def __init__(self, source):
        super().__init__(daemon=True)
        self.source, self.faults, self.pages = source, [], 0
        self.exporter = Exporter(MONITOR, "-H", "unix://" + SOCKET, "--source", source, "--interval", "1s")
        self.is_ending = threading.Event()
        self.gone_names = set()

    def run(self):
        before, before_s = {}, 0
        while not self.is_ending.is_set():
            start_s = time.monotonic()
            forbidden = set(self.gone_names)
            try:
                page = of_containers(parse(self.exporter.get("/metrics").decode()))
            except (AssertionError, OSError) as error:
                if not self.is_ending.is_set():
                    self.faults.append(repr(error))
                break
            end_s = time.monotonic()
            self.compare(before, page, end_s - before_s, forbidden)
            before, before_s = page, start_s
            self.pages += 1
            self.is_ending.wait(0.15)

    def compare(self, before, page, seconds, forbidden):
        for identity, now in page.items():
            then = before.get(identity, {})
            if len(now["names"]) != 1:
                self.faults.append(f"{identity[:12]} has the names {now['names']}")
            if now["names"] & forbidden:
                self.faults.append(f"{identity[:12]} still has the name {now['names']}")
            started = "container_creation_time_seconds" if self.source == "cgroups" else "container_start_time_seconds"
            if then.get(started) != now.get(started):
                continue
            used = now.get("container_cpu_usage_seconds_total", 0) - then.get("container_cpu_usage_seconds_total", 0)
            if used > CPUS * seconds + TICK_S and then:
                self.faults.append(f"{identity[:12]} used {used} s of CPU in {seconds} s")
            for key, value in now.items():
                family = key.split("/")[0]
                if family.endswith("_total") and family not in LEVELS and value < then.get(key, 0):
                    self.faults.append(f"{identity[:12]}: {key} fell from {then[key]} to {value}")

    def page(self):
        return of_containers(self.exporter.series())

    def end(self):
        self.is_ending.set()
        self.join(PATIENCE_S)
        self.exporter.stop()
        assert not self.faults, (self.source, self.faults[:10])
        assert self.pages > 5, (self.source, self.pages)


def ours(page, mine):
    return {identity: values for identity, values in page.items() if identity in mine}


def shows(watch, mine):
    """What it is to show: these by these names, and of this engine nothing else; control groups alone know no names."""
    page = watch.page()
    if watch.source == "cgroups":
        return all(identity in page for identity in mine)
    return {identity: next(iter(values["names"])) for identity, values in page.items() if identity != "/"} == mine


def differences(source, name, before, page, after, network):
    for key, low in before.items():
        is_level, key = key.startswith("~"), key.lstrip("~")
        high, value = after.get("~" + key if is_level else key, low), page.get(key)
        if key.startswith("container_network_") and (network != "own" or source == "cgroups" and value is None):
            continue  # of those that share a network control groups alone may take another for the owner
        if key == "container_spec_memory_limit_bytes" and low >= MEMORY_TOTAL:
            low = high = 0  # no limit
        if value is None:
            # What the sources do not know: the Engine tells nothing of what is not there (a cgroup without I/O).
            yield f"{source}: {name} has no {key}"
            continue
        low, high = min(low, high), max(low, high)
        # Levels move both ways between two readings: between two of its programs the shell of 'traffic' is alone.
        slack = 0
        if key.startswith("container_memory_") and is_level:
            slack = MEMORY_SLACK
        if key == "container_threads":
            slack = 1
        if key in ("container_cpu_user_seconds_total", "container_cpu_system_seconds_total"):
            slack = TICK_S
        if not low - slack - 1e-9 <= value <= high + slack + 1e-9:
            yield f"{source}: {name}: {key} is {value}, the Engine says {low} before and {high} after"
    has_network = any(key.startswith("container_network_") for key in page)
    # The host of a lab's engine is a namespace too, which control groups alone cannot tell from a container's.
    if (network == "none" or network == "host" and source != "cgroups") and has_network:
        yield f"{source}: {name} shows a network of its own"


def agree(watches, networks):
    """The pages of all between two readings of the Engine."""
    def settled():
        mine = engine.running()
        return mine if all(shows(watch, mine) for watch in watches) else None
    mine = wait_until("all to show what runs", settled)
    before = engine.readings(mine)
    pages = [watch.page() for watch in watches]
    after = engine.readings(mine)
    for watch, page in zip(watches, pages):
        found = [text for identity, name in mine.items() for text in differences(
            watch.source, name, before[identity], page[identity], after[identity], networks.get(name, "own"))]
        assert not found, found
        # Of those that share a network one has it: its owner, where that is known.
        sharing = [identity for identity, name in mine.items() if networks.get(name) == "shared"]
        owners = [identity for identity, name in mine.items() if name == "traffic"]
        showing = [identity for identity in sharing + owners
                   if any(key.startswith("container_network_") for key in page[identity])]
        assert len(showing) == len(owners), (watch.source, showing)
        assert watch.source == "cgroups" or showing == owners, (watch.source, showing)


def percentages(watches):
    """`stats` beside the Engine's own client, and Docker's formula on the numbers that the monitor itself was given."""
    theirs = {row["Name"]: row for row in map(json.loads, docker(
        "stats", "--no-stream", "--format", "{{json .}}").splitlines())}
    for source in ("engine", "api"):
        rows = subprocess.run([MONITOR, "stats", "-H", "unix://" + SOCKET, "--source", source, "--no-stream",
                               "--docker-compat", "--format", "json"], capture_output=True, text=True, timeout=60,
                              check=True).stdout.splitlines()
        mine = {row["Name"]: row for row in map(json.loads, rows)}
        assert set(mine) == set(theirs), (set(mine), set(theirs))
        for name in ("idle", "alone"):
            for key in ("ID", "MemUsage", "MemPerc", "PIDs", "BlockIO", "CPUPerc"):
                assert mine[name][key] == theirs[name][key], (source, name, key, mine[name], theirs[name])
        assert mine["alone"]["NetIO"] == "--" and mine["host"]["NetIO"] == "--", mine["alone"]
    with Proxy(SOCKET) as proxy:
        rows = subprocess.run([MONITOR, "stats", "-H", "unix://" + proxy.path, "--source", "api", "--no-stream",
                               "--docker-compat", "--format", "json", "--no-trunc"], capture_output=True, text=True,
                              timeout=60, check=True).stdout.splitlines()
    for row in map(json.loads, rows):
        replies = [json.loads(body) for path, body in proxy.replies if f"/{row['ID']}/stats" in path]
        assert len(replies) == 2, (row, len(replies))
        first, second = (reply["cpu_stats"] for reply in replies)
        used = second["cpu_usage"]["total_usage"] - first["cpu_usage"]["total_usage"]
        passed = second["system_cpu_usage"] - first["system_cpu_usage"]
        expected = used / passed * second["online_cpus"] * 100 if used > 0 and passed > 0 else 0
        assert row["CPUPerc"] == f"{expected:.2f}%", (row, expected)
        memory = replies[1]["memory_stats"]
        spare = memory["stats"].get("total_inactive_file", memory["stats"].get("inactive_file", 0))
        total = min(memory["limit"], MEMORY_TOTAL)
        assert row["MemPerc"] == f"{(memory['usage'] - spare) / total * 100:.2f}%", (row, memory)
    say("CPU by Docker's formula: " + ", ".join(f"{row['Name']} {row['CPUPerc']}" for row in map(json.loads, rows)))


def oom_total(watch, name):
    values = [value for values in watch.page().values() if name in values["names"]
              for key, value in values.items() if key == "container_oom_events_total"]
    return values[0] if values else None


def counts_kills(watch, name, at_least):
    """As many as the Engine has told of, which may miss the one that ended the container; never one of them twice."""
    events, total = engine.told(name, "oom"), oom_total(watch, name)
    return total is not None and max(events, at_least) <= total <= max(events, 1)


def restart_engine(watches, networks):
    say("a daemon that is killed and started again")
    mine = engine.running()
    pid = int(pathlib.Path(PIDFILE).read_text())
    os.kill(pid, signal.SIGKILL)
    wait_until("the engine to end", lambda: not os.path.exists(f"/proc/{pid}"))
    for watch in watches:
        if watch.source == "api":
            wait_until("the page to say that nothing can be read",
                       lambda w=watch: b"\ncontainer_scrape_error 1\n" in w.exporter.get("/metrics"))
            assert not ours(watch.page(), mine)
            continue
        first = watch.page()
        assert set(ours(first, mine)) == set(mine), (watch.source, "lost a container with the engine")
        busy = next(identity for identity, name in mine.items() if name == "traffic")
        wait_until("counters to go on without the engine", lambda w=watch, f=first: w.page()[busy][
            "container_cpu_usage_seconds_total"] > f[busy]["container_cpu_usage_seconds_total"])
    with open(os.path.join(os.path.dirname(PIDFILE), "dockerd-again.log"), "wb") as log:
        subprocess.Popen(START_ENGINE, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)

    def is_back():
        try:
            return engine.running()
        except (OSError, RuntimeError):
            return {}
    wait_until("'traffic' to be started again", lambda: "traffic" in is_back().values())
    say(f"  {len(mine)} containers before, {len(engine.running())} after")
    agree(watches, networks)


def life(watches):
    networks = {"alone": "none", "host": "host", "shared": "shared"}
    for watch in watches:
        watch.start()
    say("start, under load")
    begin("traffic", "--cpus", "0.3", "-m", "64m", "--restart", "always",
          command=["sh", "-c", "while :; do dd if=/dev/zero of=/file bs=64k count=64 oflag=direct 2>/dev/null; done"])
    begin("idle", command=["sleep", "1000"])
    begin("alone", "--network", "none", command=["sleep", "1000"])
    begin("host", "--network", "host", command=["sleep", "1000"])
    begin("shared", "--network", "container:traffic", command=["sleep", "1000"])
    agree(watches, networks)
    say("percentages")
    percentages(watches)
    say("rename")
    docker("rename", "idle", "lazy")
    networks_agree = engine.running()
    for watch in watches:
        wait_until("the new name", lambda w=watch: shows(w, networks_agree))
        watch.gone_names.add("idle")
    agree(watches, networks)
    say("pause")
    docker("pause", "traffic")
    agree(watches, networks)
    docker("unpause", "traffic")
    agree(watches, networks)
    say("restart, with a network again afterwards")
    docker("rm", "-f", "shared")
    docker("restart", "-t", "0", "traffic")
    begin("shared", "--network", "container:traffic", command=["sleep", "1000"])
    agree(watches, networks)
    say("stop, start, kill")
    docker("stop", "-t", "0", "lazy")
    agree(watches, networks)
    docker("start", "lazy")
    agree(watches, networks)
    docker("kill", "alone")
    agree(watches, networks)
    docker("update", "-m", "96m", "--memory-swap", "192m", "traffic")
    agree(watches, networks)
    say("kills for want of memory: of a child, and of the first process, which a restart must not hide")
    hog = "dd if=/dev/zero of=/dev/null bs=64M count=1"
    begin("child", "-m", "16m", command=["sh", "-c", f"{hog}; exec sleep 1000"])
    begin("first", "-m", "16m", "--restart", "on-failure",
          command=["sh", "-c", f"[ -e /was-here ] || {{ : >/was-here; exec {hog}; }}; exec sleep 1000"])
    for watch in watches:
        if watch.source != "cgroups":
            # Only the kernel's own count is sure, and only for who has survived.
            for name, at_least in (("child", watch.source == "engine"), ("first", 0)):
                wait_until(f"{watch.source} to count the kill in '{name}'",
                           lambda w=watch, n=name, a=at_least: counts_kills(w, n, a))
    say(f"  the engine told of {engine.told('child', 'oom')} and {engine.told('first', 'oom')}")
    agree(watches, networks)
    restart_engine(watches, networks)
    for watch in watches:
        watch.end()


def main():
    watches = []
    try:
        watches += [Watch(source) for source in SOURCES]
        life(watches)
    finally:
        for watch in watches:
            if watch.exporter.process.poll() is None:
                watch.is_ending.set()
                watch.exporter.process.kill()
                watch.exporter.process.wait(PATIENCE_S)
    say("done")


MEMORY_TOTAL = engine.ask("/info")["MemTotal"]
main()
