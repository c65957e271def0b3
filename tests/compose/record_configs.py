#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Record what docker understands of the stack files: data/stacks/NAME.yml -> data/stacks/NAME.docker.yml.

What `docker stack config` prints, with the client's version, folders made relative, and dollar signs doubled, since
docker prints them bare. Needs no engine. DOCKER names the client (docker).

    tests/compose/record_configs.py
"""
import os
import pathlib
import subprocess

DATA = pathlib.Path(__file__).resolve().parent / "data" / "stacks"
DOCKER = os.environ.get("DOCKER", "docker")
FILES = {  # as test_docker.c has them
    "every-key": ["every-key"],
    "short-forms": ["short-forms"],
    "modes": ["modes"],
    "objects": ["objects"],
    "scalars": ["scalars"],
    "variables": ["variables"],
    "merge": ["merge-1", "merge-2"],
}


def main():
    lines = (DATA / "variables.env").read_text().splitlines()
    variables = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
    version = subprocess.run([DOCKER, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    for name, files in FILES.items():
        command = [DOCKER, "stack", "config"]
        for file in files:
            command += ["-c", str(DATA / f"{file}.yml")]
        printed = subprocess.run(
            command, check=True, capture_output=True, text=True, env={"PATH": os.environ["PATH"], **variables}
        ).stdout
        printed = printed.replace("$", "$$").replace(f"{DATA}/", "./").replace(f"{DATA.parent}/", "../")
        (DATA / f"{name}.docker.yml").write_text(f"# docker stack config: {version}\n{printed}")


main()
