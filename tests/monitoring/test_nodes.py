#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`stats --all-nodes` and the page's list of nodes, with exporters on stored trees as the nodes, one of which wants a
user, and one that is not there.

    test_nodes.py MUSTER_MONITOR DATA
"""

import html
import http.client
import http.server
import json
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

MONITOR, DATA = sys.argv[1], pathlib.Path(sys.argv[2])
PATIENCE_S = 30
TREE = ["--source", "cgroups", "--path.procfs", str(DATA / "v2/proc"), "--path.sysfs", str(DATA / "v2/sys")]
# Of "secret": htpasswd -nbBC 4 x secret
HASH = "$2y$04$WbmeOWCB6hqvbx/FkO5Zu.0rir3DkgzMFR/mwG3ctIQ/NuFirrbwO"


class Node:
    """An exporter; its port is read from what it logs."""

    def __init__(self, name, *options):
        self.process = subprocess.Popen([MONITOR, "serve", *TREE, "--node", name, "--web.listen-address", "127.0.0.1:0",
                                         *options], stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if "listening on" in line:
                self.port = int(line.rsplit(":", 1)[1].strip().strip('"'))
                break
        else:
            raise AssertionError(f"{name} did not start")
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE_S) == 0

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        connection.request("GET", path)
        reply = connection.getresponse()
        body = reply.read()
        connection.close()
        assert reply.status == 200, (path, reply.status, body)
        return json.loads(body)


class Machine(http.server.BaseHTTPRequestHandler):
    """A node of two cores, of which one is busy: the stored trees know no machine."""

    def do_GET(self):
        body = (f'container_cpu_usage_seconds_total{{id="/"}} {time.monotonic():.6f}\n'
                'container_memory_working_set_bytes{id="/"} 250\nmachine_cpu_cores 2\nmachine_memory_bytes 1000\n').encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def wait_until(what, check):
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        result = check()
        if result:
            return result
        time.sleep(0.05)
    raise AssertionError(f"not in {PATIENCE_S} s: {what}")


def closed_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def stats(*options):
    done = subprocess.run([MONITOR, "stats", "--all-nodes", "--no-stream", *options], capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False)
    return done.returncode, done.stdout, done.stderr


def test_stats(folder, one, two, dead):
    nodes = folder / "nodes"
    nodes.write_text(f"first http://127.0.0.1:{one.port}\nsecond http://127.0.0.1:{two.port}\n"
                     f"third http://127.0.0.1:{dead}\n")
    status, out, err = stats("--nodes-file", str(nodes), "--format", "json")
    assert status == 0, err
    rows = [json.loads(line) for line in out.splitlines()]
    assert {row["Node"] for row in rows} == {"first", "second", "third"}, rows
    mine = [row for row in rows if row["Node"] == "first"]
    assert mine and all(row["CPUPerc"].endswith("%") and row["Error"] == "" for row in mine), mine
    assert [row["Error"] for row in rows if row["Node"] == "second"] == ["status 401: it wants a user and a password"]
    assert "connect" in [row["Error"] for row in rows if row["Node"] == "third"][0]
    credentials = folder / "credentials"
    credentials.write_text("x:secret\n")
    status, out, err = stats("--nodes", f"127.0.0.1:{one.port}", "--nodes", f"http://127.0.0.1:{two.port}",
                             "--nodes-credentials", str(credentials))
    assert status == 0, err
    # Those that were found by an address alone say themselves who they are.
    assert out.startswith("NODE") and "\none " in out and "\ntwo " in out and "unreachable" not in out, out
    for options, words in [([], "where are they?"), (["--nodes", "ftp://x"], "only http and https"),
                           (["--nodes-file", "/nowhere"], "/nowhere"),
                           (["--nodes", "x", "--docker-compat"], "exclude each other"),
                           (["--nodes", "x", "--format", "{{.Nodes}}"], "template")]:
        status, _, err = stats(*options)
        assert status == 2 and words in err, (options, status, err)


def test_tls(folder):
    """A certificate must be of who signs, and of the name that was asked for; the node may want one of ours."""
    cert, key = DATA / "web" / "cert.pem", DATA / "web" / "key.pem"
    config = folder / "tls.yml"
    config.write_text(f"tls_server_config:\n  cert_file: {cert.resolve()}\n  key_file: {key.resolve()}\n"
                      f"  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: {cert.resolve()}\n")
    with Node("safe", "--web.config.file", str(config)) as node:
        def error(url, *options):
            status, out, err = stats("--nodes", url.format(node.port), "--format", "{{.Error}}", *options)
            assert status == 0, err
            return out.strip()
        ours = ["--nodes-ca", str(cert), "--nodes-cert", str(cert), "--nodes-key", str(key)]
        assert error("https://127.0.0.1:{}", *ours) == ""
        assert "certificate" in error("https://127.0.0.1:{}"), "believed a certificate of nobody"
        assert error("https://127.0.0.1:{}", "--nodes-ca", str(cert)) == "status 403"
        assert error("http://127.0.0.1:{}") != ""


def test_page(folder, one, two, dead):
    nodes = folder / "nodes"
    machine = http.server.HTTPServer(("127.0.0.1", 0), Machine)
    threading.Thread(target=machine.serve_forever, daemon=True).start()
    nodes.write_text(f"first http://127.0.0.1:{one.port} http://first.example/\nthird http://127.0.0.1:{dead}\n"
                     f"machine http://127.0.0.1:{machine.server_port}\n")
    credentials = folder / "credentials"
    with Node("viewer", "--nodes-file", str(nodes), "--nodes", f"127.0.0.1:{two.port}", "--nodes-credentials",
              str(credentials), "--nodes-link", "http://{node}:8080/") as viewer:
        def all_known():
            said = viewer.get("/api/v1/nodes")
            by_name = {node["name"]: node for node in said["nodes"]}
            return by_name if {"first", "third", "two", "machine"} <= by_name.keys() else None
        known = wait_until("all nodes to be known", all_known)
        assert known["first"]["link"] == "http://first.example/", known
        assert known["third"]["link"] == "http://third:8080/" and "connect" in known["third"]["fault"], known
        assert known["two"]["link"] == "http://two:8080/" and known["two"]["fault"] == "", known
        assert known["first"]["containers"] > 0 and known["first"]["cpu"], known
        # The second reading has a rate.
        busy = wait_until("a rate", lambda: [point for point in all_known()["machine"]["cpu"] if point is not None])
        assert all(25 < point < 75 for point in busy), busy
        known = all_known()
        assert known["machine"]["memory"][-1] == 250 and known["machine"]["limit"] == 1000, known
        assert viewer.get("/api/v1/node")["node"] == "viewer"
        if shutil.which("chromium"):
            test_browser(folder, viewer, known["third"]["fault"])
    machine.shutdown()
    assert one.get("/api/v1/nodes") == {"nodes": []}  # nobody told it of any


def browse(folder, viewer, budget_ms, *more):
    done = subprocess.run(
        ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         f"--user-data-dir={folder}/profile", "--enable-logging=stderr", f"--virtual-time-budget={budget_ms}", *more,
         f"http://127.0.0.1:{viewer.port}/"], capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False)
    return done.stdout, done.stderr


def test_browser(folder, viewer, fault):
    """The nodes are links that the keyboard reaches, with their numbers, and who is silent says why."""
    dom, log = browse(folder, viewer, 6000, "--dump-dom")
    assert "CONSOLE" not in log, log
    table = dom.partition('id="nodes-rows"')[2].partition("</tbody>")[0]
    assert '<a href="http://two:8080/">two</a>' in table and '<a href="http://first.example/">first</a>' in table, table
    assert html.escape(fault, quote=False) in table and "answers" in table and re.search(r"\d&nbsp;%", table), table
    assert '<section id="nodes" aria-labelledby="nodes-title">' in dom, "the section is hidden"
    picture = folder / "nodes.png"
    browse(folder, viewer, 6000, f"--screenshot={picture}", "--window-size=390,1600")
    assert picture.stat().st_size > 20000, "the picture is empty"


with tempfile.TemporaryDirectory() as name:
    path = pathlib.Path(name)
    config = path / "web.yml"
    config.write_text(f"basic_auth_users:\n  x: {HASH}\n")
    with Node("one") as node_one, Node("two", "--web.config.file", str(config)) as node_two:
        gone = closed_port()
        test_stats(path, node_one, node_two, gone)
        test_page(path, node_one, node_two, gone)
    test_tls(path)
