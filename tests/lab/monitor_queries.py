#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dashboards' queries against a real Prometheus: each returns what it should.

    monitor_queries.py ADDRESS QUERIES [ALERT...]     every query of the file; each alert fires
    monitor_queries.py ADDRESS --until SECONDS QUERY  waits until the query returns something
"""

import http.client
import json
import sys
import time
import urllib.parse

ADDRESS = sys.argv[1]
PATIENCE_S = 60
INTERVAL = "20s"


def ask(path):
    connection = http.client.HTTPConnection(ADDRESS, timeout=PATIENCE_S)
    connection.request("GET", "/api/v1/" + path)
    reply = json.loads(connection.getresponse().read())
    connection.close()
    if reply["status"] != "success":
        raise SystemExit(f"{path}: {reply['error']}")
    return reply["data"]


def query(expression):
    return ask("query?query=" + urllib.parse.quote(expression))["result"]


def wait_for(check, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            found = check()
        except OSError:
            found = None
        if found:
            return found
        time.sleep(0.2)
    return None


def firing(name):
    return [alert for alert in ask("alerts")["alerts"]
            if alert["labels"]["alertname"] == name and alert["state"] == "firing"]


def main():
    if sys.argv[2] == "--until":
        seconds, expression = int(sys.argv[3]), sys.argv[4]
        if not wait_for(lambda: query(expression), seconds):
            raise SystemExit(f"nothing in {seconds} s for {expression}")
        return
    counts, faults = {}, []
    with open(sys.argv[2], encoding="utf-8") as file:
        lines = [line.strip().split(" ", 1) for line in file if line.strip() and not line.startswith("#")]
    for who, expression in lines:
        is_empty, expression = expression.startswith("-"), expression.lstrip("-").replace("[R]", f"[{INTERVAL}]")
        found = query(expression) if is_empty else wait_for(lambda e=expression: query(e), PATIENCE_S)
        if bool(found) == is_empty:
            faults.append(f"{who}: {'something' if is_empty else 'nothing'} for {expression}")
        counts[who] = counts.get(who, 0) + 1
    for name in sys.argv[3:]:
        if not wait_for(lambda n=name: firing(n), PATIENCE_S):
            faults.append(f"alert {name} does not fire")
    print(", ".join(f"{who}: {count} queries" for who, count in counts.items()) + f"; {len(faults)} faults")
    if faults:
        raise SystemExit("\n".join(faults))


main()
