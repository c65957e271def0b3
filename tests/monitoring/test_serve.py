#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The exporter as its clients see it: plain and hostile HTTP, TLS and users, Prometheus, a browser, and a recording
that gives the same page again. Containers are those of the stored trees, so no engine and no rights are needed.

    test_serve.py MUSTER_MONITOR DATA http|tls|replay|page
    test_serve.py MUSTER_MONITOR DATA prometheus ALERTS
"""

import base64
import errno
import gzip
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

MONITOR, DATA = sys.argv[1], pathlib.Path(sys.argv[2])
PATIENCE_S = 30
SKIP = 77
# Of "secret": htpasswd -nbBC 4 x secret
HASH = "$2y$04$WbmeOWCB6hqvbx/FkO5Zu.0rir3DkgzMFR/mwG3ctIQ/NuFirrbwO"


class Monitor:
    """A running exporter; its address is read from what it logs."""

    def __init__(self, *options, verb="serve", port=0):
        tree = [] if verb == "replay" else ["--source", "cgroups", "--path.procfs", str(DATA / "v2/proc"),
                                            "--path.sysfs", str(DATA / "v2/sys")]
        self.process = subprocess.Popen([MONITOR, verb, *tree, "--web.listen-address", f"127.0.0.1:{port}", *options],
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

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(PATIENCE_S)
        assert status == 0, (status, "".join(self.log))

    def get(self, path, method="GET", headers=None, context=None):
        kind = http.client.HTTPSConnection if context else http.client.HTTPConnection
        more = {"context": context} if context else {}
        connection = kind("127.0.0.1", self.port, timeout=PATIENCE_S, **more)
        connection.request(method, path, headers=headers or {})
        reply = connection.getresponse()
        body = reply.read()
        connection.close()
        return reply.status, dict(reply.getheaders()), body

    def raw(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)


def wait_until(what, check):
    """Asks again until it is true; the time is a limit, not a measure."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        result = check()
        if result:
            return result
        time.sleep(0.05)
    raise AssertionError(f"not in {PATIENCE_S} s: {what}")


def test_http():
    with Monitor() as monitor:
        wait_until("ready", lambda: monitor.get("/-/ready")[0] == 200)
        status, headers, plain = monitor.get("/metrics")
        assert status == 200 and headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8", headers
        assert b"\ncontainer_cpu_usage_seconds_total{" in plain and plain.endswith(b"\n")
        status, headers, packed = monitor.get("/metrics", headers={"Accept-Encoding": "gzip"})
        assert headers["Content-Encoding"] == "gzip" and b"container_memory_rss" in gzip.decompress(packed)
        assert "Content-Encoding" not in monitor.get("/metrics", headers={"Accept-Encoding": "gzip;q=0"})[1]
        # OpenMetrics would rename cAdvisor's names: nobody gets it.
        wish = {"Accept": "application/openmetrics-text;version=1.0.0"}
        assert monitor.get("/metrics", headers=wish)[1]["Content-Type"].startswith("text/plain")
        assert monitor.get("/metrics?name[]=container_last_seen")[2].count(b"# TYPE") == 1
        assert monitor.get("/healthz")[2] == b"ok" and monitor.get("/-/healthy")[0] == 200
        assert monitor.get("/metrics", "HEAD")[2] == b""
        for path, method, expected in [("/nothing", "GET", 404), ("/metrics", "POST", 405), ("/metrics", "DELETE", 405),
                                       ("/../etc/passwd", "GET", 404), ("/%2e%2e/etc/passwd", "GET", 404),
                                       ("/metrics/", "GET", 404), ("/api/v1/history?since=x", "GET", 400)]:
            assert monitor.get(path, method)[0] == expected, (path, method, expected)
        for path in ["/", "/page.js", "/page.css", "/icon.svg", "/chart.js"]:
            status, headers, body = monitor.get(path)
            assert status == 200 and headers["Content-Security-Policy"].startswith("default-src 'self'"), path
            assert b"http://" not in body.replace(b"http://www.w3.org", b"") or path == "/chart.js", path
        hostile_clients(monitor)


class Endless(threading.Thread):
    """Sends without an end, until it is cut off."""

    def __init__(self, monitor, first, part):
        super().__init__(daemon=True)
        self.client, self.first, self.part, self.end = monitor.raw(), first, part, None
        self.start()

    def run(self):
        try:
            self.client.sendall(self.first)
            while True:
                self.client.sendall(self.part)
        except OSError as error:
            self.end = error

    def check(self):
        self.join(PATIENCE_S)
        assert isinstance(self.end, (BrokenPipeError, ConnectionResetError)), (self.first[:40], self.end)
        self.client.close()


def hostile_clients(monitor):
    """None of these may keep the page or the ticks from others."""
    idle = [monitor.raw() for _ in range(100)]  # say nothing
    slow = [monitor.raw() for _ in range(20)]
    for client in slow:
        client.sendall(b"GET /metrics HTTP/1.1\r\nX-A: ")  # and never end
    deaf = [monitor.raw() for _ in range(20)]
    for client in deaf:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 20)  # and never read
    nonsense = [b"\x16\x03\x01\x02\x00\x01", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\r\n" * 1000,
                b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20000 + b"\r\n",
                b"POST /metrics HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n" + b"x" * 65536,
                b"GET /metrics HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
                b"GET /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", b"\0" * 4096]
    for text in nonsense:
        with monitor.raw() as client:
            try:
                client.sendall(text)
                client.shutdown(socket.SHUT_WR)
                answer = client.recv(64)
                assert answer == b"" or answer.startswith(b"HTTP/1."), answer
                assert not answer.startswith(b"HTTP/1.1 200"), (text[:40], answer)
            except OSError as error:  # cut off: as good as an answer
                assert error.errno in (errno.ENOTCONN, errno.EPIPE, errno.ECONNRESET), (text[:40], error)
    endless = [Endless(monitor, b"GET /metrics?", b"a" * 1000),
               Endless(monitor, b"GET / HTTP/1.1\r\n", b"A: b\r\n" * 100),
               Endless(monitor, b"POST /metrics HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
                       b"3e8\r\n" + b"x" * 1000 + b"\r\n"),
               Endless(monitor, b"", b"\r\n" * 500)]
    newest = [json.loads(monitor.get("/api/v1/history")[2])["times"][-1]]
    for _ in range(3):  # ticks go on, and whoever asks decently is served
        newest.append(wait_until("a tick", lambda: (lambda t: t if t > newest[-1] else None)(
            json.loads(monitor.get("/api/v1/history")[2])["times"][-1])))
        assert monitor.get("/metrics")[0] == 200
    for client in endless:
        client.check()
    for client in idle + slow + deaf:
        client.close()


def basic(user, password):
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def test_tls(folder):
    config = folder / "web.yml"
    for name in ("cert.pem", "key.pem"):
        shutil.copy(DATA / "web" / name, folder / name)
    users = f"basic_auth_users:\n  alice: {HASH}\n"
    config.write_text("tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n" + users)
    trusting = ssl.create_default_context(cafile=str(folder / "cert.pem"))
    with Monitor("--web.config.file", str(config)) as monitor:
        assert monitor.get("/metrics", context=trusting)[0] == 401
        status, headers, _ = monitor.get("/metrics", headers=basic("alice", "wrong"), context=trusting)
        assert status == 401 and headers["WWW-Authenticate"].startswith("Basic"), headers
        assert monitor.get("/metrics", headers=basic("mallory", "secret"), context=trusting)[0] == 401
        assert monitor.get("/healthz", context=trusting)[0] == 401  # the toolkit protects everything
        assert monitor.get("/", headers=basic("alice", "secret"), context=trusting)[0] == 200
        assert b"container_last_seen" in monitor.get("/metrics", headers=basic("alice", "secret"), context=trusting)[2]
        try:
            monitor.get("/metrics", headers=basic("alice", "secret"), context=ssl.create_default_context())
            raise AssertionError("a certificate of nobody was believed")
        except ssl.SSLCertVerificationError:
            pass
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.load_verify_locations(str(folder / "cert.pem"))
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        try:
            monitor.get("/metrics", context=old)
            raise AssertionError("TLS 1.1 was spoken")
        except (ssl.SSLError, ConnectionError, ValueError):
            pass
        with monitor.raw() as plain:
            plain.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
            try:
                assert not plain.recv(64).startswith(b"HTTP/1.1 200")
            except ConnectionError:
                pass
        if shutil.which("openssl"):
            renew(folder)
            renewed = (folder / "cert.pem").read_text()
            wait_until("the renewed certificate", lambda: shown_certificate(monitor) == renewed)
            trusting = ssl.create_default_context(cafile=str(folder / "cert.pem"))
        # A changed file is taken up; a wrong one leaves the old in force.
        config.write_text(users)
        wait_until("plain HTTP", lambda: plain_status(monitor) == 401)
        config.write_text("basic_auth_user:\n")
        wait_until("a complaint", lambda: any("is not a key" in line for line in monitor.log))
        assert plain_status(monitor) == 401
        config.write_text("")
        wait_until("no password", lambda: plain_status(monitor) == 200)
    config.write_text("tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n"
                      "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: cert.pem\n")
    with Monitor("--web.config.file", str(config)) as monitor:
        assert monitor.get("/metrics", context=trusting)[0] == 403
        trusting.load_cert_chain(str(folder / "cert.pem"), str(folder / "key.pem"))
        assert monitor.get("/metrics", context=trusting)[0] == 200
    config.write_text("basic_auth_users:\n  alice: secret\n")
    done = subprocess.run([MONITOR, "serve", "--source", "cgroups", "--web.config.file", str(config)],
                          capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 2 and "web.yml:2:" in done.stderr and "bcrypt" in done.stderr, done


def renew(folder):
    """As data/web/README has it."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                    "-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")], check=True,
                   capture_output=True, timeout=PATIENCE_S)
    os.chmod(folder / "key.pem", 0o644)  # openssl makes it its owner's, and the exporter is somebody else


def shown_certificate(monitor):
    try:
        return ssl.get_server_certificate(("127.0.0.1", monitor.port), timeout=PATIENCE_S)
    except OSError:
        return None  # between the two


def plain_status(monitor):
    try:
        return monitor.get("/metrics")[0]
    except (ConnectionError, http.client.HTTPException, OSError):
        return None


def test_replay(folder):
    recording, events = folder / "file", folder / "events"
    events.write_text('{"event":"start","t":1,"slot":"w1.1"}\n'
                      '{"event":"view","t":1,"slot":"w1.1","view":1,"rank":0,"world":3}\n')
    options = ["--events", str(events)]
    live = []
    with Monitor("--record", str(recording), "--interval", "1h", *options) as monitor:
        wait_until("the page's own first tick", lambda: monitor.get("/-/ready")[0] == 200)
        for step in range(8):
            with events.open("a") as file:
                file.write(json.dumps({"event": "progress", "slot": "w1.1", "rank": 0, "epoch": 1, "epochs": 2,
                                       "step": step, "steps": 8, "loss": 1 / (step + 1), "accuracy": 0.1 * step,
                                       "ms_per_step": 21.7 + step}) + "\n")
                file.write(json.dumps({"event": "gauge", "name": "queue", "value": 0.1 * step - 0.3}) + "\n")
            live.append(monitor.get("/metrics")[2])
    assert b"\nmuster_loss{slot=\"w1.1\"} 0.125\n" in live[-1]
    assert b"\nmuster_reports_total{name=\"queue\",slot=\"w1.1\"} 8\n" in live[-1], live[-1]
    with Monitor(str(recording), "--serve", verb="replay") as monitor:
        replayed = [monitor.get(f"/metrics?at=%23{n}")[2] for n in range(9)]
        # The first tick is the page's own, before anybody asked.
        assert replayed[1:] == live, "what is replayed differs from what was served"
        assert monitor.get("/metrics?at=%2399")[0] == 400
        history = json.loads(monitor.get("/api/v1/history")[2])
        assert history["trainings"][0]["slot"] == "w1.1" and history["containers"]
    csv = subprocess.run([MONITOR, "replay", "--csv", "-", str(recording)], capture_output=True, text=True,
                         timeout=PATIENCE_S, check=True).stdout.splitlines()
    assert csv[0].startswith("time,node,stack") and len(csv) == 1 + 9, csv
    table = subprocess.run([MONITOR, "replay", "--speed", "0", "--format", "json", str(recording)],
                           capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout.splitlines()
    assert len(table) == 9 and json.loads(table[0])["PIDs"], table
    recording.write_bytes(recording.read_bytes()[:200] + b"x" + recording.read_bytes()[201:])
    done = subprocess.run([MONITOR, "replay", str(recording)], capture_output=True, text=True, timeout=PATIENCE_S,
                          check=False)
    assert done.returncode in (0, 2) and (done.returncode == 2 or "torn" in done.stderr), done


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_prometheus(folder):
    for program in ("prometheus", "promtool"):
        if not shutil.which(program):
            sys.exit(SKIP)
    rules = pathlib.Path(sys.argv[4]).resolve()
    subprocess.run(["promtool", "check", "rules", str(rules)], check=True, timeout=PATIENCE_S)
    events = folder / "events"
    events.write_text('{"event":"start","slot":"w1.1"}\n{"event":"view","slot":"w1.1","view":1,"rank":0,"world":3}\n'
                      '{"event":"progress","slot":"w1.1","epoch":1,"epochs":2,"step":1,"steps":2,"loss":0.5,'
                      '"accuracy":0.5,"ms_per_step":20}\n{"event":"failed","slot":"w1.1","reason":"disk"}\n')
    with Monitor("--events", str(events)) as monitor:
        page = monitor.get("/metrics")[2]
        lint = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, timeout=PATIENCE_S,
                              check=False).stderr.decode()
        allowed = ("cadvisor_version_info label names", "container_memory_failcnt counter",
                   "container_fs_inodes_total non-counter")
        complaints = [line for line in lint.splitlines() if not line.startswith(allowed)]
        assert not complaints, complaints
        (folder / "prometheus.yml").write_text(
            "global: {scrape_interval: 500ms, evaluation_interval: 500ms}\n"
            f"rule_files: [{rules}]\n"
            "scrape_configs:\n  - job_name: muster\n    static_configs: [{targets: "
            f"['127.0.0.1:{monitor.port}']}}]\n")
        port = free_port()
        prometheus = subprocess.Popen(
            ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address=127.0.0.1:{port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            def ask(path):
                try:
                    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
                    connection.request("GET", "/api/v1/" + path)
                    return json.loads(connection.getresponse().read())["data"]
                except (OSError, ValueError, KeyError):
                    return None

            def query(expression):
                data = ask("query?query=" + "".join(f"%{byte:02x}" for byte in expression.encode()))
                return data and data["result"]
            wait_until("a scrape", lambda: query("up == 1"))
            # The dashboards' queries, as far as a stored tree can feed them.
            for expression in [
                    'rate(container_cpu_usage_seconds_total{name=~".+"}[5s])',
                    'container_memory_working_set_bytes{name=~".+"}', 'container_memory_rss{name=~".+"}',
                    'container_memory_usage_bytes{name=~".+"}', 'container_spec_memory_limit_bytes{name=~".+"}',
                    'count(container_last_seen{name=~".+"})', 'cadvisor_version_info', 'process_cpu_seconds_total',
                    'muster_loss == 0.5', 'muster_step_seconds == 0.02', 'muster_members == 3']:
                wait_until(expression, lambda e=expression: query(e))
            wait_until("a firing alert", lambda: [alert for alert in (ask("alerts") or {"alerts": []})["alerts"]
                                                  if alert["labels"]["alertname"] == "MusterTrainingFailed"
                                                  and alert["state"] == "firing"])
        finally:
            prometheus.terminate()
            prometheus.wait(PATIENCE_S)


def test_page(folder):
    if not shutil.which("chromium"):
        sys.exit(SKIP)

    def browse(port, budget_ms, *more):
        return subprocess.Popen(
            ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             f"--user-data-dir={folder}/profile{port}{budget_ms}", "--enable-logging=stderr", f"--virtual-time-budget={budget_ms}",
             *more, f"http://127.0.0.1:{port}/"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    events = folder / "events"
    events.write_text('{"event":"start","slot":"w1.1"}\n{"event":"progress","slot":"w1.1","epoch":1,"epochs":2,'
                      '"step":1,"steps":2,"loss":0.5,"accuracy":0.5,"ms_per_step":20}\n')
    monitor = Monitor("--events", str(events), "--interval", "500ms")
    try:
        page = browse(monitor.port, 4000, "--dump-dom")
        dom, log = page.communicate(timeout=2 * PATIENCE_S)
        assert "CONSOLE" not in log, log
        assert ">live<" in dom and "<canvas" in dom and "w1.1" in dom and 'scope="row"' in dom, dom
        for width in (1280, 390):
            shot = folder / f"{width}.png"
            browse(monitor.port, 3000 + width, f"--screenshot={shot}", f"--window-size={width},1400").communicate(
                timeout=2 * PATIENCE_S)
            assert shot.stat().st_size > 20000, "the picture is empty"
    finally:
        monitor.stop()


def main():
    name = sys.argv[3]
    with tempfile.TemporaryDirectory(prefix="muster-serve-") as folder:
        os.chmod(folder, 0o755)  # started as root, the exporter becomes somebody else
        test = globals()["test_" + name]
        if name == "http":
            test()
        else:
            test(pathlib.Path(folder))
    print(f"{name}: passed")


os.environ.pop("DOCKER_HOST", None)
main()
