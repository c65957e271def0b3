#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page in a real browser: with the keyboard alone, through a restart of the exporter, and back into what an earlier
exporter has recorded. Containers are those of the stored trees.

    test_page.py MUSTER_MONITOR DATA
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Browser, PATIENCE_S

MONITOR, DATA = sys.argv[1], pathlib.Path(sys.argv[2])
EXPORTERS = []
STATUS = 'document.getElementById("status").textContent'
SAMPLES = "state.times.length"


class Exporter:
    def __init__(self, folder, port=0):
        self.log = open(folder / "log", "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [MONITOR, "serve", "--source", "cgroups", "--path.procfs", str(DATA / "v2/proc"), "--path.sysfs",
             str(DATA / "v2/sys"), "--web.listen-address", f"127.0.0.1:{port}", "--interval", "200ms", "--record",
             str(folder / "file"), "--page.history", "5m"], stderr=self.log)
        EXPORTERS.append(self)
        self.port = port or Browser.wait("an address", self.find_port)

    def find_port(self):
        assert self.process.poll() is None, self.said()
        return next((int(line.rsplit(":", 1)[1].strip().strip('"')) for line in self.said().splitlines()
                     if "listening on" in line), None)

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        status = self.process.wait(PATIENCE_S)
        assert status == (0 if how == signal.SIGTERM else -how), (status, self.said())


def with_the_keyboard(browser):
    """Everything can be reached and worked by Tab, Enter, the space bar and the arrows."""
    seen = []
    for _ in range(40):
        browser.press("Tab")
        seen.append(browser.value(
            '(e => e === document.body ? "" : e.id || e.className || e.textContent)(document.activeElement)'))
        if seen[-1] == "Threads":
            break
    for what in ("skip", "range", "group", "filter", "pause", "metrics", "Name", "CPU", "Memory", "Threads"):
        assert what in seen, (what, seen)
    sorting = '[...document.querySelectorAll("#table th[aria-sort]")].map(c => c.innerText + " " + c.ariaSort).join()'
    browser.press("Enter")
    assert browser.value(sorting) == "Threads descending", browser.value(sorting)
    browser.press(" ")
    assert browser.value(sorting) == "Threads ascending", browser.value(sorting)
    for _ in range(seen[::-1].index("pause")):
        browser.press("Tab", shift=True)
    browser.press(" ")
    assert browser.value(STATUS) == "paused"
    browser.press("Enter")
    browser.until(f'{STATUS} === "live"')
    browser.press("Tab", shift=True)
    for letter in "zzz":
        browser.press(letter)
    browser.until('document.getElementById("none").textContent === "No container fits the filter."')
    for _ in "zzz":
        browser.press("Backspace")
    browser.until('document.getElementById("table").tBodies[0].rows.length > 0')
    # An outline is seen wherever the focus is.
    assert browser.value(
        '(s => s.outlineStyle !== "none" || s.boxShadow !== "none")(getComputedStyle(document.activeElement))')


def through_a_restart(browser, folder, exporter):
    before = browser.value(SAMPLES)
    assert not browser.errors, browser.errors
    Browser.wait("a block of the recording", lambda: (folder / "file").stat().st_size > 300)
    exporter.end(signal.SIGKILL)
    browser.until(f'{STATUS}.startsWith("not reachable")')
    assert browser.value('document.getElementById("table").tBodies[0].rows.length') > 0, "the table has gone"
    again = Exporter(folder, exporter.port)
    browser.until(f'{STATUS} === "live" && {SAMPLES} > {before + 3}')
    assert browser.value('document.getElementById("node").textContent')
    # That requests failed meanwhile is the browser's own complaint; the page has none.
    others = [error for error in browser.errors
              if "ERR_CONNECTION" not in error and "Failed to load resource" not in error]
    assert not others, others
    browser.errors.clear()
    return again


def back_into_the_recording(browser, exporter, started_s):
    """A page that is opened anew shows what was there before the exporter was."""
    browser.open(f"http://127.0.0.1:{exporter.port}/")
    browser.until(f'typeof state !== "undefined" && {STATUS} === "live"')
    assert browser.value("state.times[0]") < started_s, "the page begins with this exporter"
    days = ('[...document.getElementById("range").options].filter(o => "day" in o.dataset && !o.hidden)'
            '.map(o => o.textContent).join()')
    assert browser.value(days) == "1 hour,6 hours,24 hours", browser.value(days)
    choose = 'document.getElementById("range").value = "%s"; ' \
             'document.getElementById("range").dispatchEvent(new Event("change"))'
    browser.value(choose % "86400")
    browser.until("state.isDay && state.times.length >= 1 && state.containers.size >= 1")
    assert browser.value("state.times[0]") < started_s
    browser.value(choose % "300")
    browser.until(f"!state.isDay && {SAMPLES} > 3")
    assert not browser.errors, browser.errors


def test(folder):
    exporter = Exporter(folder)
    with Browser(folder / "profile") as browser:
        browser.open(f"http://127.0.0.1:{exporter.port}/")
        browser.until(f'typeof state !== "undefined" && {STATUS} === "live" && {SAMPLES} > 3')
        with_the_keyboard(browser)
        started_s = time.time()
        exporter = through_a_restart(browser, folder, exporter)
        back_into_the_recording(browser, exporter, started_s)
    exporter.end()


def main():
    if not shutil.which("chromium"):
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="muster-page-") as name:
        os.chmod(name, 0o777)  # started as root, the exporter becomes somebody else
        folder = pathlib.Path(name)
        try:
            test(folder)
        finally:
            for exporter in EXPORTERS:
                exporter.process.kill()
                exporter.process.wait(PATIENCE_S)
    print("page: passed")


main()
