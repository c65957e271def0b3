#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""muster report on folders that make_experiment.py writes.

    test_report.py MUSTER numbers|same|damage|use|attempts|doubts|runs|page
"""
import csv
import json
import math
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

MUSTER = os.path.abspath(sys.argv[1])
MAKER = pathlib.Path(__file__).with_name("make_experiment.py")
PATIENCE_S = 60
SKIP = 77
FILES = ["report.csv", "report.html", "report.json"]


def make(folder, *options):
    subprocess.run([sys.executable, str(MAKER), str(folder), *options], check=True, timeout=PATIENCE_S)
    return folder


def report(*arguments, status=0):
    done = subprocess.run(
        [MUSTER, "report", *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    return done


def load(folder):
    return json.loads((folder / "report.json").read_text())["experiments"][0]


def contrast(experiment, metric, mode, series=0, workload=0):
    return next(
        c
        for c in experiment["series"][series]["contrasts"]
        if (c["metric"], c["mode"], c["workload"]) == (metric, mode, workload)
    )


def step_ms(folder):
    """As docs/report.md says: epochs' time over their steps, the mean over workers."""
    each = []
    for path in sorted(folder.glob("history-*.csv")):
        rows = list(csv.DictReader(path.open()))
        each.append(1000 * sum(float(r["seconds"]) for r in rows) / sum(float(r["steps"]) for r in rows))
    return statistics.mean(each)


def test_numbers(folder):
    source = make(folder / "first", "--repeats", "6", "--epochs", "3", "--steps", "20", "--overhead", "0.1")
    done = report(source)
    assert done.stdout.count("\n") == 4 and done.stdout.endswith(f"{source}/report.html\n"), done.stdout
    assert "3600 s ahead" in done.stderr
    runs = json.loads((source / "experiment.json").read_text())["runs"]
    value = {
        (r["mode"], r["repeat"]): (step_ms(source / r["folders"][0]["folder"]), r["position"])
        for r in runs
        if r["series"] == "w1-ring"
    }
    pairs = [(value["bare", k], value["container", k]) for k in range(1, 7)]
    d = [math.log(b[0] / a[0]) for a, b in pairs]
    x = [b[1] - a[1] for a, b in pairs]
    slope = statistics.covariance(x, d) / statistics.variance(x)
    overhead = 100 * (math.exp(statistics.mean(d) - slope * statistics.mean(x)) - 1)
    experiment = load(source)
    found = contrast(experiment, "step_ms", "container")
    assert abs(found["overhead_percent"] - overhead) < 1e-6, (found, overhead)
    assert found["pairs"] == 6 and found["df"] == 4 and found["order_in_model"]
    assert found["overhead_low"] < overhead < found["overhead_high"] and found["overhead_low"] > 0
    for whole, parts in (
        ("step_ms", ["step_compute_ms", "step_exchange_ms", "step_rest_ms"]),
        (
            "whole_seconds",
            [p + "_seconds" for p in ("start", "discovery", "connect", "compute", "exchange", "saving", "rest")],
        ),
    ):
        total = sum(contrast(experiment, part, "container")["difference"] for part in parts)
        assert abs(total - contrast(experiment, whole, "container")["difference"]) < 1e-6, (whole, total)
    assert [s["workloads"] for s in experiment["series"]] == [1, 2]
    assert contrast(experiment, "step_ms", "container", 1, 2)["pairs"] == 6
    assert len([e for e in experiment["series"][1]["epochs"] if e["mode"] == "bare"]) == 2 * 3 * 3
    counted = [
        source / r["folders"][0]["folder"]
        for r in runs
        if r["series"] == "w1-ring" and r["mode"] == "bare" and r["repeat"]
    ]
    steps = [
        float(row["ms"]) for run in counted for path in run.glob("steps-*.csv") for row in csv.DictReader(path.open())
    ]
    spread = experiment["series"][0]["spread"][0]
    assert (
        spread["steps"] == len(steps) == 6 * 3 * 60
        and abs(spread["step_median_ms"] - statistics.median(steps)) < 1e-6
    ), spread
    lines = list(csv.DictReader((source / "report.csv").open()))
    line = next(
        r
        for r in lines
        if r["quantity"] == "overhead of step_ms" and r["mode"] == "container" and r["series"] == "w1-ring"
    )
    assert abs(float(line["value"]) - overhead) < 1e-6 and line["pairs"] == "6"
    assert any(
        r["quantity"] == "epoch_seconds" and r["node"] == "node3" and r["counts"] == "0" for r in lines
    ), "warm-ups are told"
    page = (source / "report.html").read_text()
    assert "a step takes" in page and "longer in &#39;containers, overlay&#39;" in page and "NOT within" not in page


def test_same(folder):
    source = make(
        folder / "same",
        "--modes",
        "bare,bare-again",
        "--workloads",
        "1",
        "--epochs",
        "2",
        "--steps",
        "10",
        "--seed",
        "3",
    )
    text = report(source).stdout
    assert "no difference is shown" in text and "one and the same" in text, text


def check_left_out(folder, change, *words):
    """One run of ten is damaged by `change`: it alone is left out, and named everywhere."""
    source = make(
        folder / "damaged", "--workloads", "1", "--modes", "bare,container", "--epochs", "2", "--steps", "5"
    )
    runs = json.loads((source / "experiment.json").read_text())["runs"]
    victim = next(r for r in runs if r["repeat"] == 3 and r["mode"] == "container")
    change(source, source / victim["folders"][0]["folder"], victim, runs)
    done = report(source)
    experiment = load(source)
    told = next(r for r in experiment["runs"] if r["number"] == victim["number"])
    assert not told["counts"] and all(word in told["left_out"] for word in words), told
    assert f"run {victim['number']} is not counted" in done.stderr and all(
        word in done.stderr for word in words
    ), done.stderr
    assert f"Run {victim['number']} " in (source / "report.html").read_text()
    c = contrast(experiment, "step_ms", "container")
    assert c["pairs"] == 4 and c["without_partner"] == 1, c
    shutil.rmtree(source)


def cut(name, lines):
    def change(source, run, victim, runs):
        path = next(run.glob(name))
        content = path.read_text().splitlines()
        path.write_text("\n".join(content[:-1] + [content[-1][:lines]]))

    return change


def replace(name, old, new):
    def change(source, run, victim, runs):
        path = next(run.glob(name))
        text = path.read_text()
        assert old in text, (path, old)
        path.write_text(text.replace(old, new, 1))

    return change


def edit(**values):
    def change(source, run, victim, runs):
        document = json.loads((source / "experiment.json").read_text())
        next(r for r in document["runs"] if r["number"] == victim["number"]).update(values)
        (source / "experiment.json").write_text(json.dumps(document))

    return change


def remove(name):
    return lambda source, run, victim, runs: next(run.glob(name)).unlink()


def test_damage(folder):
    check_left_out(folder, cut("history-*.csv", 20), "history-", ":3: ", "fields")
    check_left_out(folder, replace("history-*.csv", "bytes_sent", "bytes"), "no column 'bytes_sent'")
    check_left_out(folder, replace("steps-*w1.1.csv", ",1,1,1,", ",1,1,1,x"), "steps-", ":2: ms: ")
    check_left_out(folder, replace("stats.csv", "packets\n17", "packets\nx17"), "stats.csv", ":2: time: ")
    check_left_out(folder, cut("events.jsonl", 30), "events.jsonl:")
    check_left_out(folder, replace("events.jsonl", '"compute_ms": ', '"compute_ms": 9'), "profile")
    check_left_out(folder, remove("run.json"), "run.json")
    check_left_out(folder, remove("history-*.csv"), "history-")
    check_left_out(folder, replace("run.json", '"done"', '"failed"'), "'failed'")
    check_left_out(folder, edit(folders=[{"workload": 1, "folder": "../other"}]), "not within")
    check_left_out(folder, edit(state="failed", reason="node2 went away"), "failed: node2 went away")
    good = make(folder / "good", "--workloads", "1", "--epochs", "1", "--steps", "2", "--repeats", "2")
    for name, content, words in (
        ("cut", (good / "experiment.json").read_text()[:300], "experiment.json"),
        ("format", '{"format": 2}', "format"),
        ("modes", '{"format":1,"name":"x","baseline":"bare","modes":[],"runs":[]}', "modes"),
        ("none", '{"format":1,"name":"x","baseline":"a","modes":[{"name":"a"}],"runs":[]}', "no run"),
    ):
        bad = folder / name
        bad.mkdir()
        (bad / "experiment.json").write_text(content)
        done = report("--out", folder / "nowhere", bad, status=2)
        assert words in done.stderr and done.stderr.count("\n") == 1, done.stderr
        assert not (folder / "nowhere").exists()
    (folder / "empty").mkdir()
    assert "neither experiment.json nor run.json" in report(folder / "empty", status=2).stderr
    assert report(folder / "missing", status=2).stderr.count("\n") == 1
    assert "--out" in report(good, folder / "empty", status=2).stderr
    report(status=2)
    # What stands stays as it is when the new one cannot be made.
    report(good)
    before = {name: (good / name).read_bytes() for name in FILES}
    assert "libjs-chart.js" in report("--charts", folder / "no-such-file", good, status=1).stderr
    (folder / "in-the-way").write_text("")
    report("--out", folder / "in-the-way", good, status=1)
    assert {name: (good / name).read_bytes() for name in FILES} == before
    assert sorted(path.name for path in good.iterdir()) == sorted([*FILES, "experiment.json", "runs"])


def test_use(folder):
    """Curves begin with a node's own worker, whatever its clock says, and rates are differences of counters."""
    source = make(
        folder / "first", "--workloads", "1", "--modes", "bare,container", "--repeats", "2", "--epochs", "4"
    )
    report(source)
    page = (source / "report.html").read_text()
    run = json.loads(re.search(r'id="use">(.*?)</script>', page, re.S).group(1))[0][0]["workloads"][0]
    curves = {(u["name"], u["is_node"]): u for u in run["usage"]}
    assert set(curves) == {(f"node{i}", is_node) for i in (1, 2, 3) for is_node in (False, True)}, curves.keys()
    for u in curves.values():
        assert 0 <= u["t"][0] <= 1 and len(u["t"]) == len(u["cpu"]) == len(u["rx"]) == len(u["tx"]) > 8
        assert all(65e6 < rx < 80e6 for rx in u["rx"][1:-3]), u["rx"]  # 80 % to 100 % of a core, 800 kB each
    ends = [w["t"][-1] for w in run["workers"]]
    assert len(ends) == 3 and max(ends) - min(ends) < 0.1 and 0 < ends[0] < curves["node1", True]["t"][-1] + 1, ends
    for path in (source / "runs").glob("*/nodes.csv"):
        path.unlink()  # then a node is the sum over what runs there
    report(source)
    page = (source / "report.html").read_text()
    run = json.loads(re.search(r'id="use">(.*?)</script>', page, re.S).group(1))[0][1]["workloads"][0]
    node = next(u for u in run["usage"] if u["is_node"] and u["name"] == "node2")
    parts = [u for u in run["usage"] if not u["is_node"] and u["name"] in ("workload1_w2.1", "workload1_monitor")]
    assert node["is_sum"] and len(parts) == 4, [u["name"] for u in run["usage"]]
    worker = next(u for u in parts if u["name"] == "workload1_w2.1")
    assert all(abs(a - b - 1.5) < 0.3 for a, b in zip(node["cpu"][2:-2], worker["cpu"][2:-2]))


def test_attempts(folder):
    """Runs made again, an experiment not at its end, names that are no names, and two experiments on one page."""
    source = make(folder / "first", "--workloads", "1", "--modes", "bare,container", "--epochs", "1", "--steps", "3")
    document = json.loads((source / "experiment.json").read_text())
    runs = document["runs"]
    again = [dict(run) for run in runs if run["repeat"] == 2]
    for i, run in enumerate(again):
        run.update(number=len(runs) + 1 + i, attempt=2)
    runs += again + [dict(runs[-1], number=len(runs) + 3, repeat=6, state="planned", folders=[])]
    evil = "</script><script>alert(1)</script>"
    document["modes"][1]["label"] = evil
    document["warnings"] = [evil]
    document.update(state="interrupted", reason="told to stop")
    (source / "experiment.json").write_text(json.dumps(document))
    report(source)
    experiment = load(source)
    found = contrast(experiment, "step_ms", "container")
    assert found["pairs"] == 5 and found["without_partner"] == 0, found
    assert [r["left_out"] for r in experiment["runs"] if r["repeat"] == 2] == ["made again later"] * 2 + [None] * 2
    assert experiment["runs"][-1]["left_out"].startswith("planned")
    page = (source / "report.html").read_text()
    assert "The experiment is interrupted: told to stop" in page
    assert evil not in page and page.count("alert(1)") == page.count("&#60;script&#62;alert(1)") + page.count(
        "\\u003cscript>alert(1)"
    )
    other = make(folder / "second", "--workloads", "1", "--epochs", "1", "--steps", "3", "--seed", "9")
    report("--out", folder / "both", source, other)
    both = json.loads((folder / "both" / "report.json").read_text())["experiments"]
    assert [e["name"] for e in both] == ["first", "second"]
    assert (folder / "both" / "report.html").read_text().count('<section class="experiment"') == 2


def test_doubts(folder):
    """Runs that did not train the same are told of."""
    source = make(folder / "first", "--workloads", "1", "--modes", "bare,container", "--epochs", "2", "--steps", "3")
    assert report(source).stderr.count("\n") == 1  # of the clock
    run = next((source / "runs").glob("006-*"))
    text = (run / "run.json").read_text()
    for old, new, words in (
        ("5a5a", "6b5a", "ended with different parameters"),
        ('"muster": "0.1.0"', '"muster": "0.0.9"', "different versions of muster"),
    ):
        assert old in text
        (run / "run.json").write_text(text.replace(old, new, 1))
        done = report(source)
        assert words in done.stderr and words in (source / "report.html").read_text(), done.stderr
    (run / "run.json").write_text(text)
    for path in run.glob("history-*.csv"):
        path.write_text("\n".join(path.read_text().splitlines()[:-1]) + "\n")
    done = report(source)
    assert "did not make as many steps" in done.stderr and "parameters" not in done.stderr, done.stderr


def test_runs(folder):
    source = make(folder / "source", "--workloads", "1", "--epochs", "2", "--steps", "5", "--repeats", "1")
    first, second = sorted((source / "runs").iterdir())[:2]
    report(first)
    assert load(first)["side_by_side"]
    out = report("--out", folder / "both", first, second).stdout
    assert "one run of each" in out and "shows no difference" in out, out
    experiment = load(folder / "both")
    assert [m["label"] for m in experiment["modes"]] == [first.name, second.name]
    assert not contrast(experiment, "step_ms", second.name)["has_interval"]
    (second / "events.jsonl").unlink()  # as an older muster run left it
    for path in [*second.glob("steps-*.csv"), second / "stats.csv", second / "nodes.csv"]:
        path.unlink()
    report("--out", folder / "both", first, second)
    (second / "run.json").write_text("{")
    assert "run.json" in report("--out", folder / "both", first, second, status=2).stderr


def test_page(folder):
    if not shutil.which("chromium"):
        sys.exit(SKIP)

    def browse(page, name, *more):
        done = subprocess.run(
            [
                "chromium",
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                f"--user-data-dir={folder}/{name}",
                "--enable-logging=stderr",
                "--virtual-time-budget=3000",
                *more,
                f"file://{page}",
            ],
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE_S,
        )
        assert "CONSOLE" not in done.stderr, done.stderr
        return done.stdout

    source = make(folder / "experiment", "--epochs", "4", "--steps", "10", "--repeats", "3")
    report(source)
    first, second = sorted((source / "runs").iterdir())[:2]
    report("--out", folder / "both", first, second)
    for name, page in (("experiment", source / "report.html"), ("both", folder / "both" / "report.html")):
        text = page.read_text()
        own = re.sub(
            r"<script>\s*/\*!.*?</script>", "", text, flags=re.S
        )  # without Chart.js, whose notice names its site
        assert "Content-Security-Policy" in own and "default-src &#39;none&#39;" in own.replace("'", "&#39;")
        assert not re.search(r"https?:|\bsrc=|@import|url\(", own), re.search(r"https?:|\bsrc=|@import|url\(", own)
        assert re.findall(r"href=\"([^\"]*)\"", own) == ["data:,"]
        assert "Released under the MIT License" in text
        dom = browse(page, name, "--dump-dom")
        canvases = re.findall(r"<canvas[^>]*>", dom)
        drawn = [c for c in canvases if "display: block" in c]
        assert len(canvases) >= 6 and len(drawn) == len(canvases), (len(drawn), canvases)
    for width in (1280, 390):
        shot = folder / f"{width}.png"
        browse(source / "report.html", f"shot{width}", f"--screenshot={shot}", f"--window-size={width},3000")
        assert shot.stat().st_size > 50000, "the picture is empty"


def main():
    name = sys.argv[2]
    with tempfile.TemporaryDirectory(prefix="muster-report-") as folder:
        globals()["test_" + name](pathlib.Path(folder))
    print(f"{name}: passed")


main()
