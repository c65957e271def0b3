#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Record what `docker stack deploy` sends: data/NAME.yml -> data/NAME.docker.json.

An engine that takes everything listens on a Unix socket; the client named by DOCKER (docker) deploys each stack file as
stack "st" to it, and the bodies of its create calls are stored with the client's version. Needs no engine and no network.

    tests/swarm/record_bodies.py [NAME...]
"""
import http.server
import json
import os
import pathlib
import socketserver
import subprocess
import sys
import tempfile
import threading
import urllib.parse

DATA = pathlib.Path(__file__).resolve().parent / "data"
DOCKER = os.environ.get("DOCKER", "docker")
STACK = "st"


def path_of(target):
    """Without version and query."""
    path = urllib.parse.urlparse(target).path
    return path.split("/", 2)[-1] if path.startswith("/v1.") else path[1:]


class Engine(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    made = {"networks": [], "secrets": [], "configs": [], "services": []}
    external = []

    def reply(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Api-Version", "1.47")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self):
        self.reply(200, "OK")

    def do_GET(self):
        path = path_of(self.path)
        kind, _, name = path.partition("/")
        if kind == "_ping":
            self.reply(200, "OK")
        elif kind == "info":
            self.reply(200, {"Swarm": {"ControlAvailable": True, "LocalNodeState": "active"}})
        elif kind in ("secrets", "configs") and not name:
            self.reply(200, [{"ID": "id-" + b["Name"], "Spec": b} for b in self.made[kind] + self.external])
        elif kind == "networks" and name in [b["Name"] for b in self.external]:
            self.reply(200, {"Name": name, "Id": "id-" + name, "Scope": "swarm"})
        elif name:
            self.reply(404, {"message": "not found"})
        else:
            self.reply(200, [])

    def do_POST(self):
        kind = urllib.parse.urlparse(self.path).path.split("/")[2]
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        self.made[kind].append(body)
        self.reply(201, {"ID": "id-" + body["Name"], "Id": "id-" + body["Name"]})

    def log_message(self, *arguments):
        pass


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def get_request(self):
        request, _ = super().get_request()
        return request, ("local", 0)


def externals(text):
    """Names in a line '# external: a b' of the stack file: what the engine has already."""
    for line in text.splitlines():
        if line.startswith("# external:"):
            return [{"Name": name} for name in line.split(":", 1)[1].split()]
    return []


def record(name, host, version):
    stack_file = DATA / f"{name}.yml"
    for bodies in Engine.made.values():
        bodies.clear()
    Engine.external = externals(stack_file.read_text())
    command = [DOCKER, "-H", host, "stack", "deploy", "--resolve-image", "never", "--detach=true", "-c", str(stack_file), STACK]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"})
    for kind, bodies in Engine.made.items():
        bodies.sort(key=lambda body: body["Name"])  # docker walks a map: no order of its own
    recorded = {"client": version, **Engine.made}
    (DATA / f"{name}.docker.json").write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")
    print(name, {kind: len(bodies) for kind, bodies in Engine.made.items()})


def main():
    version = subprocess.run([DOCKER, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    names = sys.argv[1:] or sorted(path.stem for path in DATA.glob("*.yml"))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "docker.sock")
        with Server(path, Engine) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            for name in names:
                record(name, "unix://" + path, version)
            server.shutdown()


if __name__ == "__main__":
    main()
