#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An exporter whose recording lies on a disk that fills up, gets room again, and which is killed in the end: it goes on
serving all the while, what it could not write is all that is missing, and the file opens. Another whose disk takes no
further file when the next one is due: it goes on in the old one until there is one.

    test_full_disk.py MUSTER_MONITOR DATA
"""

import http.client
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

MONITOR, DATA = sys.argv[1], pathlib.Path(sys.argv[2])
PATIENCE_S = 60
DISK_BYTES = 256 << 10
PROCESSES = []


def wait_until(what, check):
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        found = check()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"not in {PATIENCE_S} s: {what}")


def newest_tick(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request("GET", "/api/v1/history")
    times = json.loads(connection.getresponse().read())["times"]
    connection.close()
    return times[-1] if times else 0


def ticks_go_on(port):
    before = newest_tick(port)
    wait_until("the next ticks", lambda: newest_tick(port) > before + 1)


def replayed(path):
    done = subprocess.run([MONITOR, "replay", "--csv", "-", str(path)], capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done
    return [float(line.split(",", 1)[0]) for line in done.stdout.splitlines()[1:]]


def mount(disk, *options):
    disk.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join(["mode=777", *options]), "muster-test", str(disk)], check=True)


def start(folder, path, *options):
    """A running exporter, its port, and a function that finds what it said."""
    log = open(folder / "log", "w+", encoding="utf-8")
    process = subprocess.Popen(
        [MONITOR, "serve", "--source", "cgroups", "--path.procfs", str(DATA / "v2/proc"), "--path.sysfs",
         str(DATA / "v2/sys"), "--web.listen-address", "127.0.0.1:0", "--interval", "100ms", "--record", str(path),
         *options], stderr=log)
    PROCESSES.append(process)

    def said(text):
        log.seek(0)
        return next((line for line in log.read().splitlines() if text in line), None)
    port = int(wait_until("an address", lambda: said("listening on")).rsplit(":", 1)[1].strip().strip('"'))
    return process, port, said


def test_full(folder):
    disk = folder / "disk"
    mount(disk, f"size={DISK_BYTES}")
    process, port, said = start(folder, disk / "file")
    first_bytes = wait_until("a first block", lambda: (lambda size: size if size > 200 else 0)(
        (disk / "file").stat().st_size))
    with open(disk / "filler", "wb", buffering=0) as filler:
        try:
            while filler.write(b"x" * 4096) == 4096:
                pass
        except OSError:
            pass  # it is full now
    wait_until("a complaint", lambda: said("cannot be written"))
    full_s = time.time()
    ticks_go_on(port)
    room = (disk / "file").stat().st_size
    # What did not go out whole was taken back: whoever looks now sees whole blocks.
    assert replayed(disk / "file"), "nothing was kept"
    (disk / "filler").unlink()
    wait_until("the recording to go on", lambda: said("recording goes on"))
    wait_until("more blocks", lambda: (disk / "file").stat().st_size > max(room, first_bytes) + 200)
    ticks_go_on(port)
    process.send_signal(signal.SIGKILL)
    killed_s = time.time()
    process.wait(PATIENCE_S)
    times = replayed(disk / "file")
    assert times == sorted(times)
    assert times[0] < full_s and times[-1] > full_s, (times[0], full_s, times[-1])
    # Killed: the last block at most, which is five seconds; a loaded machine may have taken longer over one tick.
    assert times[-1] > killed_s - 7, (times[-1], killed_s)
    print(f"full disk: {len(times)} rows, the last {killed_s - times[-1]:.1f} s before the end; passed")


def test_no_next(folder):
    disk = folder / "disk"
    mount(disk, "nr_inodes=2")  # the folder itself and one file
    process, port, said = start(folder, disk / "file", "--rotate-age", "1s")
    wait_until("a complaint", lambda: said("the next file cannot be begun"))
    begun_s = time.time()
    ticks_go_on(port)
    assert os.listdir(disk) == ["file"], os.listdir(disk)
    subprocess.run(["mount", "-o", "remount,nr_inodes=100", str(disk)], check=True)
    wait_until("the next file", lambda: len(os.listdir(disk)) > 1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0
    first = min(disk.glob("file.*Z"))
    times = replayed(first)
    assert times[0] < begun_s < times[-1], (times[0], begun_s, times[-1])
    replayed(disk / "file")  # it may have nothing in it yet, and it opens
    print(f"no next file: {len(times)} rows in the one; passed")


def main():
    if os.geteuid() != 0:
        sys.exit(77)
    if len(sys.argv) == 3:
        # A mount namespace of its own: whatever happens, nothing stays mounted.
        sys.exit(subprocess.run(["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv, "inner"],
                                check=False).returncode)
    for test in (test_full, test_no_next):
        with tempfile.TemporaryDirectory(prefix="muster-full-") as name:
            os.chmod(name, 0o755)
            folder = pathlib.Path(name)
            try:
                test(folder)
            finally:
                for process in PROCESSES:
                    process.kill()
                    process.wait(PATIENCE_S)
                subprocess.run(["umount", "-l", str(folder / "disk")], check=False)


main()
