// SPDX-License-Identifier: Apache-2.0
"use strict";

// Figures over the two blocks of data in the page. Nothing is asked for elsewhere.
const report = JSON.parse(document.getElementById("report").textContent);
const use = JSON.parse(document.getElementById("use").textContent);
const LIGHT = ["#1f6fd6", "#d06a00", "#1f8a57", "#b8378a", "#7354cf", "#927400", "#0b86a0", "#c63d3d"];
const DARK = ["#7ab2ff", "#ffab5c", "#69d3a0", "#f08fcb", "#b7a1ff", "#e0c25a", "#5fd0e6", "#ff8f8f"];
const LINES_MAX = 8; // of one figure: more cannot be told apart
const dark = matchMedia("(prefers-color-scheme: dark)");
const print = matchMedia("print");
const charts = [];

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colorOf = (place) => (dark.matches && !print.matches ? DARK : LIGHT)[place % LIGHT.length];
const faint = (color) => color + "55";
const number = (value, digits) => value === null || value === undefined || !isFinite(value) ? "–" : value.toFixed(digits);
const signed = (value) => (value > 0 ? "+" : "") + number(value, 1) + " %";
const mean = (list) => list.length ? list.reduce((sum, value) => sum + value, 0) / list.length : null;
const cut = (text, most) => text.length > most ? text.slice(0, most - 1) + "…" : text;
const isNarrow = () => innerWidth < 600;

function rate(value) {
  const units = ["B/s", "KiB/s", "MiB/s", "GiB/s"];
  let unit = 0;
  if (value === null || !isFinite(value)) return "–";
  while (Math.abs(value) >= 1024 && unit < units.length - 1) { value /= 1024; unit++; }
  return (unit === 0 || Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(1)) + " " + units[unit];
}

// ---- what charts share ----

function axis(title, format, more) {
  return {
    ticks: { color: css("--quiet"), maxTicksLimit: 7, maxRotation: 0, callback: format },
    grid: { color: css("--line") }, title: { display: Boolean(title), text: title, color: css("--quiet") }, ...more,
  };
}

function names(more) { // an axis of names: the library's own callback would be lost by axis()
  const made = axis("", undefined, more);
  delete made.ticks.callback;
  delete made.ticks.maxTicksLimit;
  made.ticks.autoSkip = false;
  return made;
}

const lineLabels = (filter) => ({ color: css("--quiet"), usePointStyle: true, pointStyle: "line", pointStyleWidth: 22, boxHeight: 6, font: { size: 11 }, filter });

// Bytes in steps that read well: a power of two.
const byteStep = (most) => 2 ** Math.ceil(Math.log2(Math.max(1024, most) / 5));

function make(canvas, config) {
  config.options = {
    animation: false, responsive: true, maintainAspectRatio: false, interaction: { mode: "nearest", intersect: false }, ...config.options,
  };
  config.options.plugins = {
    legend: { position: "bottom", labels: { color: css("--quiet"), boxWidth: 10, boxHeight: 10 } }, ...config.options.plugins,
  };
  const chart = new Chart(canvas, config);
  charts.push(chart);
  return chart;
}

const modeLabel = (experiment, name) => experiment.modes.find((mode) => mode.name === name).label;
const modePlace = (experiment, name) => experiment.modes.findIndex((mode) => mode.name === name);
const counting = (experiment, series, mode) => experiment.runs.filter((run) => run.counts && run.series === series.name && run.mode === mode.name);

// ---- figures ----

// Intervals as whiskers, estimates as points: drawn over floating bars that only serve the pointer.
const whiskers = {
  id: "whiskers",
  afterDatasetsDraw(chart) {
    const { ctx, scales: { x, y } } = chart, zero = x.getPixelForValue(0);
    ctx.save();
    ctx.strokeStyle = css("--ink");
    ctx.lineWidth = 1;
    ctx.beginPath();
    ctx.moveTo(zero, y.top);
    ctx.lineTo(zero, y.bottom);
    ctx.stroke();
    chart.options.rows.forEach((row, i) => {
      const at = y.getPixelForValue(i), left = x.getPixelForValue(row.low), right = x.getPixelForValue(row.high);
      ctx.strokeStyle = ctx.fillStyle = row.color;
      ctx.lineWidth = 2;
      if (row.has) {
        ctx.beginPath();
        for (const [a, b, c, d] of [[left, at, right, at], [left, at - 6, left, at + 6], [right, at - 6, right, at + 6]]) {
          ctx.moveTo(a, b);
          ctx.lineTo(c, d);
        }
        ctx.stroke();
      }
      ctx.beginPath();
      ctx.arc(x.getPixelForValue(row.estimate), at, 5, 0, 2 * Math.PI);
      if (row.published) { ctx.fillStyle = css("--card"); ctx.fill(); ctx.stroke(); } else ctx.fill();
    });
    ctx.restore();
  },
};

function drawOverhead(canvas, experiment) {
  const rows = [];
  for (const series of experiment.series) for (const c of series.contrasts) {
    if (c.metric !== "step_ms" || c.workload !== 0 || c.overhead_percent === null) continue;
    rows.push({
      label: [modeLabel(experiment, c.mode), series.label], estimate: c.overhead_percent, has: c.has_interval,
      low: c.has_interval ? c.overhead_low : c.overhead_percent, high: c.has_interval ? c.overhead_high : c.overhead_percent,
      color: colorOf(modePlace(experiment, c.mode)),
    });
  }
  const published = report.published;
  const isOther = !experiment.side_by_side && experiment.modes.some((mode) => !mode.same_as_baseline);
  if (isOther) for (const [label, value] of [["one workload", published.single_percent], ["two at once", published.double_percent], ["as told", published.said_percent]])
    rows.push({ label: ["published", label], estimate: value, low: value, high: value, has: false, published: true, color: css("--quiet") });
  canvas.parentNode.style.height = 3.5 + 2.6 * rows.length + "rem";
  const all = rows.flatMap((row) => [row.low, row.high, 0]);
  const pad = 0.06 * (Math.max(...all) - Math.min(...all)) || 1;
  make(canvas, {
    type: "bar", plugins: [whiskers],
    data: { labels: rows.map((row) => isNarrow() ? row.label.map((text) => cut(text, 22)) : row.label.join(", ")), datasets: [{ data: rows.map((row) => [row.low, row.high]), backgroundColor: "transparent" }] },
    options: {
      indexAxis: "y", rows, interaction: { mode: "index", axis: "y", intersect: false },
      scales: { x: axis("overhead, %", (v) => number(v, Math.max(...all) - Math.min(...all) < 5 ? 1 : 0), { suggestedMin: Math.min(...all) - pad, suggestedMax: Math.max(...all) + pad }), y: names({ grid: { display: false } }) },
      plugins: {
        legend: { display: false },
        tooltip: { callbacks: { title: (items) => [rows[items[0].dataIndex].label].flat().join(", "), label: (item) => { const row = rows[item.dataIndex]; return signed(row.estimate) + (row.has ? ` (${signed(row.low)} to ${signed(row.high)})` : ""); } } },
      },
    },
  });
}

// Each run as a point on its mean's bar; points of a bar stand beside each other.
const points = {
  id: "points",
  afterDatasetsDraw(chart) {
    const { ctx, scales: { y } } = chart;
    ctx.save();
    chart.data.datasets.forEach((set, place) => {
      chart.getDatasetMeta(place).data.forEach((bar, i) => set.runs[i].forEach((value, k) => {
        const spread = set.runs[i].length > 1 ? (k / (set.runs[i].length - 1) - 0.5) * bar.width * 0.6 : 0;
        ctx.beginPath();
        ctx.arc(bar.x + spread, y.getPixelForValue(value), 2.5, 0, 2 * Math.PI);
        ctx.fillStyle = css("--card");
        ctx.strokeStyle = css("--ink");
        ctx.fill();
        ctx.stroke();
      }));
    });
    ctx.restore();
  },
};

function drawTotals(canvas, experiment) {
  make(canvas, {
    type: "bar", plugins: [points],
    data: {
      labels: experiment.series.map((series) => series.label.split(", ")),
      datasets: experiment.modes.map((mode, place) => {
        const runs = experiment.series.map((series) => counting(experiment, series, mode).map((run) => run.metrics.training_seconds));
        return { label: cut(mode.label, 40), runs, data: runs.map(mean), backgroundColor: faint(colorOf(place)), borderColor: colorOf(place), borderWidth: 1 };
      }),
    },
    options: { scales: { x: names({ grid: { display: false } }), y: axis("s", (v) => v, { beginAtZero: true }) } },
  });
}

function drawParts(canvas, experiment) {
  const rows = experiment.series.flatMap((series) => experiment.modes.map((mode) => ({ label: [cut(mode.label, isNarrow() ? 18 : 40), series.label], runs: counting(experiment, series, mode) })))
    .filter((row) => row.runs.length);
  const parts = [["compute", "step_compute_ms"], ["exchange", "step_exchange_ms"], ["rest", "step_rest_ms"]];
  canvas.parentNode.style.height = Math.max(16, 4 + 2.8 * rows.length) + "rem";
  make(canvas, {
    type: "bar",
    data: {
      labels: rows.map((row) => row.label),
      datasets: parts.map(([label, key], place) => ({ label, data: rows.map((row) => mean(row.runs.map((run) => run.metrics[key]))), backgroundColor: colorOf(place) })),
    },
    options: {
      indexAxis: "y", interaction: { mode: "index", axis: "y", intersect: false },
      scales: { x: axis("ms", (v) => v, { stacked: true, beginAtZero: true }), y: names({ stacked: true, grid: { display: false } }) },
      plugins: { tooltip: { callbacks: { label: (item) => " " + item.dataset.label + ": " + number(item.parsed.x, 2) + " ms" } } },
    },
  });
}

// The mean over nodes and runs; the second of two workloads is dashed.
function drawEpochs(canvas, experiment, series, key, unit) {
  const sets = [];
  experiment.modes.forEach((mode, place) => {
    for (let workload = 1; workload <= series.workloads; workload++) {
      const byEpoch = new Map();
      for (const e of series.epochs)
        if (e.mode === mode.name && e.workload === workload) byEpoch.set(e.epoch, [...(byEpoch.get(e.epoch) || []), e[key]]);
      if (!byEpoch.size) continue;
      sets.push({
        label: cut(mode.label, 40) + (series.workloads > 1 ? ", " + ["first", "second"][workload - 1] : ""), borderColor: colorOf(place), backgroundColor: colorOf(place),
        borderDash: workload > 1 ? [5, 3] : [], borderWidth: 1.8, pointRadius: 2.5, clip: 6, data: [...byEpoch].map(([x, list]) => ({ x, y: mean(list) })),
      });
    }
  });
  make(canvas, {
    type: "line", data: { datasets: sets },
    options: {
      interaction: { mode: "index", intersect: false },
      scales: { x: axis("epoch", (v) => Number.isInteger(v) ? v : "", { type: "linear", min: 1 }), y: axis(unit, (v) => Number(v.toPrecision(4)), { grace: "15%" }) },
      plugins: { legend: { position: "bottom", labels: lineLabels() }, tooltip: { callbacks: { title: (items) => items.length ? "epoch " + items[0].parsed.x : "", label: (item) => " " + item.dataset.label + ": " + number(item.parsed.y, 2) + " " + unit } } },
    },
  });
}

// ---- use over time ----

function lineSet(label, place, xs, ys, more) {
  return { label: cut(label, 40), data: xs.map((x, i) => ({ x, y: ys[i] })), borderColor: colorOf(place), backgroundColor: colorOf(place), borderWidth: 1.4, pointRadius: xs.length < 3 ? 2.5 : 0, ...more };
}

function lineChart(canvas, sets, unit, format, end, more, step) {
  const y = axis(unit, format, { beginAtZero: true, ...more });
  if (step) y.ticks.stepSize = step;
  return make(canvas, {
    type: "line", data: { datasets: sets },
    options: {
      parsing: false, normalized: true, interaction: { mode: "nearest", axis: "x", intersect: false },
      scales: { x: axis("s", (v) => v, { type: "linear", min: 0, max: end }), y },
      plugins: {
        legend: { position: "bottom", labels: lineLabels((item) => !item.text.endsWith(" sent")) },
        tooltip: { callbacks: { title: (items) => items.length ? number(items[0].parsed.x, 0) + " s" : "", label: (item) => " " + item.dataset.label + ": " + format(item.parsed.y) } },
      },
    },
  });
}

// Nodes first and thick; containers busiest first.
function curves(run) {
  const hosts = new Set(run.workloads.flatMap((w) => w.workers.map((x) => x.node)));
  const which = (k) => run.workloads.length > 1 ? " " + (k + 1) : "";
  const label = (u, k) => u.is_sum ? u.name + " (sum)" + which(k) : !u.is_node && hosts.has(u.name) ? u.name + ": worker" + which(k) : u.name;
  const all = run.workloads.flatMap((w, k) => w.usage.map((u) => ({ ...u, label: label(u, k) })));
  const busy = (u) => u.cpu.reduce((sum, value) => sum + (value ?? 0), 0);
  const nodes = all.filter((u) => u.is_node), others = all.filter((u) => !u.is_node).sort((a, b) => busy(b) - busy(a));
  const chosen = new Map();
  for (const u of [...nodes, ...others]) if (!chosen.has(u.label) && chosen.size < LINES_MAX) chosen.set(u.label, u);
  return [...chosen.values()];
}

function endOf(run) {
  return Math.max(1, ...run.workloads.flatMap((w) => [...w.usage.map((u) => u.t[u.t.length - 1] ?? 0), ...w.workers.map((x) => x.t[x.t.length - 1] ?? 0)]));
}

function column(box, experiment, runs, chosen, state, redraw) {
  const label = document.createElement("label"), select = document.createElement("select");
  label.append("Run ", select);
  for (const run of runs) {
    const about = experiment.runs.find((r) => r.number === run.number);
    const option = document.createElement("option");
    option.value = run.number;
    const place = `, ${experiment.series.find((s) => s.name === about.series)?.label}, repeat ${about.repeat}`;
    option.textContent = `${run.number}: ${modeLabel(experiment, about.mode)}` + (experiment.side_by_side ? "" : place);
    option.selected = run === chosen;
    select.append(option);
  }
  select.addEventListener("change", () => { state.chosen = Number(select.value); redraw(); });
  box.append(label);
  const canvases = ["Milliseconds a step, by worker", "CPU, % of a core", "Network: received, and sent dashed"].map((text) => {
    const figure = document.createElement("figure"), caption = document.createElement("figcaption"), frame = document.createElement("div"), canvas = document.createElement("canvas");
    caption.textContent = text;
    frame.className = "canvas";
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", text);
    frame.append(canvas);
    figure.append(caption, frame);
    box.append(figure);
    return canvas;
  });
  return canvases;
}

function drawColumn(canvases, run, end, top) {
  const workers = run.workloads.flatMap((w, k) => w.workers.map((x) => ({ ...x, label: x.node + (run.workloads.length > 1 ? ", workload " + (k + 1) : "") })));
  const list = curves(run);
  const thick = (u) => u.is_node ? { borderWidth: 2.6 } : {};
  lineChart(canvases[0], workers.slice(0, LINES_MAX).map((x, i) => lineSet(x.label, i, x.t, x.ms, { pointRadius: 2 })), "ms", (v) => Number(v.toPrecision(3)), end, { suggestedMax: top.ms });
  lineChart(canvases[1], list.map((u, i) => lineSet(u.label, i, u.t, u.cpu, thick(u))), "%", (v) => number(v, 0), end, { suggestedMax: top.cpu });
  lineChart(canvases[2], list.flatMap((u, i) => [lineSet(u.label, i, u.t, u.rx, thick(u)), lineSet(u.label + " sent", i, u.t, u.tx, { ...thick(u), borderDash: [4, 3] })]), "", rate, end, { suggestedMax: top.net }, byteStep(top.net));
}

function largest(runs, get) {
  let most = 0;
  for (const run of runs) for (const w of run.workloads) for (const value of get(w)) if (value > most) most = value;
  return most;
}

// Two runs beside each other, at first the first pair of the first series.
function drawUse(box, experiment, runs) {
  const has = runs.some((run) => run.workloads.some((w) => w.usage.length || w.workers.length));
  if (!has) { box.textContent = "Nothing was recorded."; return; }
  const about = (run) => experiment.runs.find((r) => r.number === run.number);
  const first = runs.find((run) => about(run).mode === experiment.baseline) || runs[0];
  const second = runs.find((run) => about(run).mode !== experiment.baseline && about(run).series === about(first).series && about(run).repeat === about(first).repeat);
  const states = second ? [{ chosen: first.number }, { chosen: second.number }] : [{ chosen: first.number }];
  let mine = [];
  const redraw = () => {
    for (const chart of mine) { charts.splice(charts.indexOf(chart), 1); chart.destroy(); }
    box.replaceChildren();
    const shown = states.map((state) => runs.find((run) => run.number === state.chosen));
    const end = 5 * Math.ceil(Math.max(...shown.map(endOf)) / 5);
    const top = { ms: largest(shown, (w) => w.workers.flatMap((x) => x.ms)), cpu: largest(shown, (w) => w.usage.flatMap((u) => u.cpu)), net: largest(shown, (w) => w.usage.flatMap((u) => [...u.rx, ...u.tx])) };
    const before = charts.length;
    states.forEach((state, i) => {
      const frame = document.createElement("div");
      box.append(frame);
      drawColumn(column(frame, experiment, runs, shown[i], state, redraw), shown[i], end, top);
    });
    mine = charts.slice(before);
  };
  redraw();
}

// ---- all ----

function draw() {
  while (charts.length) charts.pop().destroy();
  for (const section of document.querySelectorAll("section[data-experiment]")) {
    const place = Number(section.dataset.experiment), experiment = report.experiments[place];
    for (const canvas of section.querySelectorAll("canvas[data-figure]")) {
      const series = experiment.series.find((s) => s.name === canvas.dataset.series);
      if (canvas.dataset.figure === "overhead") drawOverhead(canvas, experiment);
      if (canvas.dataset.figure === "totals") drawTotals(canvas, experiment);
      if (canvas.dataset.figure === "step-parts") drawParts(canvas, experiment);
      if (canvas.dataset.figure === "epoch-seconds") drawEpochs(canvas, experiment, series, "seconds", "s");
      if (canvas.dataset.figure === "epoch-steps") drawEpochs(canvas, experiment, series, "ms_per_step", "ms");
    }
    drawUse(section.querySelector(".use"), experiment, use[place]);
  }
}

dark.addEventListener("change", draw);
print.addEventListener("change", draw); // on paper in ink's colours
draw();
