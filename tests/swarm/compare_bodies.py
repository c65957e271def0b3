#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The bodies that docker's client and muster send for the stack files in data/, compared.

    compare_bodies.py MUSTER

Both deploy each file to the same recording engine (record_bodies.py). After what has no order is sorted and what Go writes for
nothing is left out, the bodies must be equal; networks are compared by name, for muster attaches by id. Then the places of
data/keys.txt are looked up in docker's bodies, and the list with the file that covers each is printed. Where there is no docker
client, or one of before 28, muster is compared with the stored bodies of data/NAME.docker.json.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import threading

import record_bodies
from record_bodies import DATA, DOCKER, STACK, Engine, Server

UNORDERED = {"Aliases", "Constraints"}
OWN_VARIABLES = {"shipped"}  # muster fills variables in that docker leaves to the file: test_spec.c compares these
problems = []


def client_version():
    try:
        text = subprocess.run([DOCKER, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None, "no docker client"
    found = re.search(r"version (\d+)", text)
    return (int(found.group(1)) if found else 0), text


class Recorder(Engine):
    """What muster asks besides."""

    def do_GET(self):
        path = record_bodies.path_of(self.path)
        kind, _, name = path.partition("/")
        made = {body["Name"]: body for body in self.made.get(kind, [])}
        if kind == "nodes":
            labels = {"a": "c", "rack": "1", "zone": "1"}
            self.reply(200, [{"ID": f"n{i}", "Spec": {"Role": role, "Availability": "active", "Labels": labels},
                              "Description": {"Hostname": f"node{i}"}, "Status": {"State": "ready", "Addr": f"203.0.113.{i}"}}
                             for i, role in enumerate(("manager", "worker"), 1)])
        elif kind == "networks" and name.removeprefix("id-") in made:
            body = made[name.removeprefix("id-")]
            self.reply(200, {**body, "Id": "id-" + body["Name"], "Scope": "swarm",
                             "IPAM": {"Config": [{"Subnet": "198.18.200.0/24"}]}})
        elif kind in ("secrets", "configs") and name in [b["Name"] for b in self.external]:
            self.reply(200, {"ID": "id-" + name, "Spec": {"Name": name}})
        elif kind in ("secrets", "configs") and not name and "filters" not in self.path:
            self.reply(200, [])
        else:
            super().do_GET()


def deploy(command, name):
    for bodies in Engine.made.values():
        bodies.clear()
    Engine.external = record_bodies.externals((DATA / f"{name}.yml").read_text())
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        problems.append(f"{name}: {command[0]} ends with {done.returncode}: {done.stderr.strip()}")
    return json.loads(json.dumps(Engine.made))


def meaning(value, key=""):
    """Without what says nothing, in one order, networks by name."""
    if isinstance(value, dict):
        pairs = {k: meaning(v, k) for k, v in value.items()}
        return {k: v for k, v in sorted(pairs.items()) if v not in (None, False, "", [])}
    if isinstance(value, list):
        items = [meaning(item, key) for item in value]
        return sorted(items, key=json.dumps) if key in UNORDERED else items
    if key == "Target" and isinstance(value, str):
        return value.removeprefix("id-")
    return value


def differences(where, one, two):
    if isinstance(one, dict) and isinstance(two, dict):
        for key in sorted(one.keys() | two.keys()):
            differences(f"{where}.{key}", one.get(key), two.get(key))
    elif isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        for index, (a, b) in enumerate(zip(one, two)):
            differences(f"{where}[{index}]", a, b)
    elif one != two:
        problems.append(f"{where}: docker sends {json.dumps(one)}, muster {json.dumps(two)}")


def compare(name, dockers, ours):
    for kind in Engine.made:
        by_name = [{meaning(body)["Name"]: meaning(body) for body in bodies[kind]} for bodies in (dockers, ours)]
        # Docker leaves order of services and networks to a map; each is one object.
        for body_name in sorted(by_name[0].keys() | by_name[1].keys()):
            differences(f"{name}: {kind} {body_name}", by_name[0].get(body_name), by_name[1].get(body_name))


def places(value, path=""):
    yield path
    if isinstance(value, dict):
        for key, member in value.items():
            yield from places(member, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for item in value:
            yield from places(item, path)


def print_coverage(recorded):
    found = {}
    for name, bodies in recorded.items():
        for kind in Engine.made:
            for body in bodies[kind]:
                for place in places(body):
                    found.setdefault((kind, place), name)
    for line in (DATA / "keys.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        key, kind, place = re.match(r"(.*?)\s{2,}(\w+) (\S+)$|", line).groups() if re.search(r"\s{2,}", line) else line.rsplit(" ", 2)
        where = found.get((kind, place))
        print(f"{key:32} {kind:8} {place:70} {where or 'NOT COVERED'}")
        if not where:
            problems.append(f"keys.txt: no file has {key} ({kind} {place})")


def main():
    muster = sys.argv[1]
    version, text = client_version()
    is_live = version is not None and version >= 28
    print(f"client: {text}{'' if is_live else ' (stored bodies are compared)'}")
    recorded = {}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "docker.sock")
        host = "unix://" + path
        with Server(path, Recorder) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            for name in sorted({file.stem for file in DATA.glob("*.yml")} - OWN_VARIABLES):
                file = str(DATA / f"{name}.yml")
                stored = json.loads((DATA / f"{name}.docker.json").read_text())
                recorded[name] = deploy([DOCKER, "-H", host, "stack", "deploy", "--resolve-image", "never", "--detach=true",
                                         "-c", file, STACK], name) if is_live else stored
                ours = deploy([muster, "deploy", "-H", host, "--resolve-image", "never", "--detach", "-c", file, STACK], name)
                compare(name, recorded[name], ours)
                print(f"{name}: {sum(len(bodies) for bodies in ours.values())} bodies")
            server.shutdown()
    print_coverage(recorded)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
