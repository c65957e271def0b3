# SPDX-License-Identifier: Apache-2.0
"""What tests of the monitor on real engines share: an Engine's own numbers, exporters, and their pages as series."""

import concurrent.futures
import http.client
import json
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.parse

PATIENCE_S = 30
LINE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? ([^ ]+)(?: ([0-9]+))?$")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)",?')


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=PATIENCE_S)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE_S)
        self.sock.connect(self.path)


class Engine:
    def __init__(self, path):
        self.path = path

    def ask(self, path, method="GET", body=None):
        connection = UnixConnection(self.path)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        connection.request(method, "/v1.41" + path, body and json.dumps(body), headers)
        reply = connection.getresponse()
        text = reply.read()
        connection.close()
        if reply.status >= 400:
            raise RuntimeError(f"{method} {path}: {reply.status} {text.decode(errors='replace')}")
        return json.loads(text) if text else None

    def do(self, path, body=None, method="POST"):
        return self.ask(path, method, body)

    def told(self, name, event):
        """How many of these events of the container the Engine has told so far."""
        filters = urllib.parse.quote(json.dumps({"type": ["container"], "container": [name], "event": [event]}))
        connection = UnixConnection(self.path)
        connection.request("GET", f"/v1.41/events?since=0&until={time.time():.3f}&filters={filters}")
        text = connection.getresponse().read()
        connection.close()
        return len(text.splitlines())

    def running(self):
        """{id: name} of what runs."""
        return {item["Id"]: item["Names"][0].lstrip("/") for item in self.ask("/containers/json")}

    def reading(self, name):
        """One reading without a second one, as counters by cAdvisor's names; levels are given with `~` before."""
        stats = self.ask(f"/containers/{name}/stats?stream=false&one-shot=true")
        usage, memory = stats["cpu_stats"]["cpu_usage"], stats["memory_stats"]
        inner = memory.get("stats", {})
        values = {"container_cpu_usage_seconds_total": usage["total_usage"] / 1e9,
                  "container_cpu_user_seconds_total": usage["usage_in_usermode"] / 1e9,
                  "container_cpu_system_seconds_total": usage["usage_in_kernelmode"] / 1e9,
                  "~container_memory_usage_bytes": memory.get("usage", 0),
                  "~container_memory_rss": inner.get("total_rss", inner.get("anon", 0)),
                  "~container_memory_cache": inner.get("total_cache", inner.get("file", 0)),
                  "~container_spec_memory_limit_bytes": memory.get("limit", 0),
                  "container_memory_failures_total/pgfault": inner.get("total_pgfault", inner.get("pgfault", 0)),
                  "container_memory_failures_total/pgmajfault": inner.get("total_pgmajfault",
                                                                          inner.get("pgmajfault", 0)),
                  "~container_threads": stats.get("pids_stats", {}).get("current", 0)}
        if "failcnt" in memory:
            values["container_memory_failcnt"] = memory["failcnt"]
        if "max_usage" in memory:
            values["container_memory_max_usage_bytes"] = memory["max_usage"]
        throttling = stats["cpu_stats"]["throttling_data"]
        if throttling["periods"]:
            values["container_cpu_cfs_periods_total"] = throttling["periods"]
            values["container_cpu_cfs_throttled_periods_total"] = throttling["throttled_periods"]
            values["container_cpu_cfs_throttled_seconds_total"] = throttling["throttled_time"] / 1e9
        for entry in stats["blkio_stats"].get("io_service_bytes_recursive") or []:
            if entry["op"].lower() in ("read", "write"):
                key = f"container_fs_{entry['op'].lower()}s_bytes_total"
                values[key] = values.get(key, 0) + entry["value"]
        for name, network in (stats.get("networks") or {}).items():
            for way, short in (("receive", "rx"), ("transmit", "tx")):
                for what, key in (("bytes", "bytes"), ("packets", "packets"), ("packets_dropped", "dropped")):
                    values[f"container_network_{way}_{what}_total/{name}"] = network[f"{short}_{key}"]
        return values

    def readings(self, names):
        """{name: reading}, all asked for at once: engines up to 20.10 answer at their next tick, which is up to 1 s away
        and the same for all."""
        names = list(names)
        with concurrent.futures.ThreadPoolExecutor(max(len(names), 1)) as pool:
            return dict(zip(names, pool.map(self.reading, names)))


class Exporter:
    """A running `muster-monitor serve`; its address is read from what it logs."""

    def __init__(self, program, *options):
        self.options = options
        self.process = subprocess.Popen([program, "serve", "--web.listen-address", "127.0.0.1:0", *options],
                                        stderr=subprocess.PIPE, text=True)
        self.log = []
        for line in self.process.stderr:
            self.log.append(line)
            if "listening on" in line:
                self.port = int(line.rsplit(":", 1)[1].strip().strip('"'))
                break
        else:
            raise AssertionError("".join(self.log))
        threading.Thread(target=self.log.extend, args=(self.process.stderr,), daemon=True).start()

    def get(self, path, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        connection.request("GET", path, headers=headers or {})
        reply = connection.getresponse()
        body = reply.read()
        connection.close()
        if reply.status != 200:
            raise AssertionError((path, reply.status, body[:200]))
        return body

    def series(self):
        return parse(self.get("/metrics").decode())

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(PATIENCE_S)
        assert status == 0, (self.options, status, "".join(self.log))


def parse(text):
    """{(family, ((label, value), ...)): number}; a series that is there twice is an error."""
    found = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        match = LINE.match(line)
        assert match, f"no line of the text format: {line!r}"
        labels = tuple(sorted(LABEL.findall(match[2] or "")))
        key = (match[1], labels)
        assert key not in found, f"twice: {line!r}"
        found[key] = float(match[3])
    return found


def of_containers(series):
    """{id: {"name": ..., "family" or "family/kind": value}}; sums over devices, by interface and kind of failure.
    The id is the container's, out of its control group's path; "/" is the machine."""
    found = {}
    for (family, labels), value in series.items():
        by = dict(labels)
        if not family.startswith("container_") or "id" not in by:
            continue
        mine = found.setdefault(by["id"].rsplit("/", 1)[1] or "/", {"names": set()})
        mine["names"].add(by.get("name", ""))
        kind = by.get("interface") or (by.get("failure_type") if by.get("scope") == "container" else None)
        if family == "container_memory_failures_total" and not kind:
            continue
        key = f"{family}/{kind}" if kind else family
        mine[key] = mine.get(key, 0) + value
    return found


def wait_until(what, check):
    """Asks again until it is true; the time is a limit, not a measure."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        result = check()
        if result:
            return result
        time.sleep(0.05)
    raise AssertionError(f"not in {PATIENCE_S} s: {what}")
