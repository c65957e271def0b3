// SPDX-License-Identifier: Apache-2.0
"use strict";

// The page asks for what is new since its newest tick, once a second, and draws. Nothing comes from elsewhere.
const POLL_MS = 1000;
const POLL_MAX_MS = 10000;
const SERIES_MAX = 8; // lines of one chart: more cannot be told apart
const VALUES = ["cpu", "memory", "rx", "tx", "read", "write"];
const TRAINING_VALUES = ["loss", "step_ms", "accuracy"];
const COLORS_LIGHT = ["#1f6fd6", "#d06a00", "#1f8a57", "#b8378a", "#7354cf", "#927400", "#0b86a0", "#c63d3d"];
const COLORS_DARK = ["#7ab2ff", "#ffab5c", "#69d3a0", "#f08fcb", "#b7a1ff", "#e0c25a", "#5fd0e6", "#ff8f8f"];

const state = {
  times: [], containers: new Map(), trainings: new Map(), colors: new Map(), charts: {}, paused: false,
  sort: { key: "cpu", down: true }, wait: POLL_MS, about: {}, last: 0, isDay: false, generation: 0,
};
const dark = matchMedia("(prefers-color-scheme: dark)");
const $ = (id) => document.getElementById(id);

// ---- numbers for people ----

function bytes(value) {
  if (value === null || !isFinite(value)) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < units.length - 1) { value /= 1024; unit++; }
  return (unit === 0 || Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(1)) + "\u00a0" + units[unit];
}
const rate = (value) => value === null || !isFinite(value) ? "–" : bytes(value) + "/s";
const percent = (value) => value === null || !isFinite(value) ? "–" : value.toFixed(value < 10 ? 1 : 0) + "\u00a0%";
const digits = (value, count) => value === null || value === undefined || !isFinite(value) ? "–" : value.toPrecision(count);
const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });

function newest(series) {
  for (let i = series.length - 1; i >= Math.max(0, series.length - 3); i--) if (series[i] !== null) return series[i];
  return null;
}

// ---- what has come ----

// Series grow with the times; one that was not there before begins with nothing. What has come of one are the values
// from time number `first` on, until it was gone.
function append(map, items, keyOf, names, before, added) {
  const seen = new Set();
  for (const item of items) {
    const key = keyOf(item);
    let series = map.get(key);
    if (!series) {
      series = { values: {} };
      for (const name of names) series.values[name] = new Array(before).fill(null);
      map.set(key, series);
    }
    for (const name of names) {
      const after = added - item.first - item[name].length;
      series.values[name].push(...new Array(item.first).fill(null), ...item[name], ...new Array(after).fill(null));
      delete item[name];
    }
    series.info = item;
    seen.add(key);
  }
  for (const [key, series] of map) {
    if (seen.has(key)) continue;
    for (const name of names) series.values[name].push(...new Array(added).fill(null));
    series.info.running = false;
    if (names.every((name) => series.values[name].every((value) => value === null))) map.delete(key);
  }
}

function take(data) {
  const before = state.times.length;
  state.times.push(...data.times);
  append(state.containers, data.containers, (c) => c.id, VALUES, before, data.times.length);
  append(state.trainings, data.trainings, (t) => t.container + "\n" + t.slot, TRAINING_VALUES, before, data.times.length);
  state.about = data;
  for (const option of $("range").options) if ("day" in option.dataset) option.hidden = option.disabled = !data.day;
  state.last = state.times.length ? state.times[state.times.length - 1] : 0;
  const surplus = state.times.length - 7200;
  if (surplus <= 0) return;
  state.times.splice(0, surplus);
  for (const map of [state.containers, state.trainings])
    for (const series of map.values()) for (const list of Object.values(series.values)) list.splice(0, surplus);
}

// ---- what is shown ----

function firstShown() {
  const range = Number($("range").value);
  if (!range || !state.times.length) return 0;
  const from = state.last - range;
  let i = state.times.length;
  while (i > 0 && state.times[i - 1] >= from) i--;
  return i;
}

function matches(info) {
  const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const text = [info.name, info.service, info.stack, info.image, info.slot].join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

// Lines: containers, or sums over those of a service or stack.
function lines() {
  const by = $("group").value, groups = new Map();
  for (const series of state.containers.values()) {
    if (series.info.machine || !matches(series.info)) continue;
    const key = (by !== "name" && series.info[by]) || series.info.name;
    const group = groups.get(key);
    if (!group) {
      groups.set(key, { name: key, count: 1, values: by === "name" ? series.values : Object.fromEntries(VALUES.map((v) => [v, series.values[v].slice()])) });
      continue;
    }
    group.count++;
    if (by === "name") { // the same name again: the newer container goes on where the older one has ended
      group.values = Object.fromEntries(VALUES.map((v) => [v, group.values[v].map((x, i) => x === null ? series.values[v][i] : x)]));
      continue;
    }
    for (const v of VALUES) series.values[v].forEach((x, i) => { if (x !== null) group.values[v][i] = (group.values[v][i] ?? 0) + x; });
  }
  return [...groups.values()];
}

function colorOf(name) {
  if (!state.colors.has(name)) state.colors.set(name, state.colors.size);
  const palette = dark.matches ? COLORS_DARK : COLORS_LIGHT;
  return palette[state.colors.get(name) % palette.length];
}

function sum(list, from) {
  let total = 0;
  for (let i = from; i < list.length; i++) total += list[i] ?? 0;
  return total;
}

function points(list, from) {
  const result = [];
  for (let i = from; i < list.length; i++) result.push({ x: state.times[i], y: list[i] });
  return result;
}

function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// A dashed line is the other half of a pair: one entry for both.
function legend(chart) {
  return Chart.defaults.plugins.legend.labels.generateLabels(chart)
    .filter((item) => !chart.data.datasets[item.datasetIndex].borderDash.length)
    .map((item) => ({ ...item, text: chart.data.datasets[item.datasetIndex].name, fontColor: css("--quiet") }));
}

// Bytes in steps that read well: a power of two, or that of a unit.
// The axis may be longer than the values are, and is so until the next update: more than some lines are never drawn.
function byteStep(chart, sets, from) {
  let largest = Math.max(1024, chart.options.scales.y.suggestedMax || 0, chart.scales.y ? chart.scales.y.max : 0);
  for (const set of sets) for (let i = from; i < set.list.length; i++) if (set.list[i] > largest) largest = set.list[i];
  return 2 ** Math.ceil(Math.log2(largest / 5));
}

function makeChart(id, format, minimum) {
  if (typeof Chart === "undefined") return null;
  return new Chart($(id), {
    type: "line",
    data: { datasets: [] },
    options: {
      animation: false, parsing: false, normalized: true, responsive: true, maintainAspectRatio: false, spanGaps: false,
      interaction: { mode: "index", intersect: false },
      elements: { point: { radius: 0, hitRadius: 6 }, line: { borderWidth: 1.6, tension: 0 } },
      scales: {
        x: { type: "linear", ticks: { callback: clock, maxTicksLimit: 5, maxRotation: 0 }, grid: {} },
        y: { beginAtZero: true, suggestedMax: minimum, ticks: { callback: (v) => format(v), maxTicksLimit: 6 }, grid: {} },
      },
      plugins: {
        legend: { position: "bottom", labels: { boxWidth: 10, boxHeight: 10, generateLabels: legend } },
        tooltip: { callbacks: { title: (items) => items.length ? clock(items[0].parsed.x) : "", label: (item) => " " + item.dataset.label + ": " + format(item.parsed.y) } },
      },
    },
  });
}

function draw(chart, sets, from) {
  if (!chart) return;
  const ink = css("--quiet"), line = css("--line");
  for (const axis of [chart.options.scales.x, chart.options.scales.y]) { axis.ticks.color = ink; axis.grid.color = line; }
  chart.options.plugins.legend.labels.color = ink;
  chart.options.scales.x.min = state.times[from];
  chart.options.scales.x.max = state.last;
  sets = sets.filter((set) => set.list.some((value, i) => i >= from && value !== null));
  if (chart.canvas.dataset.unit === "bytes") chart.options.scales.y.ticks.stepSize = byteStep(chart, sets, from);
  chart.data.datasets = sets.map((set) => ({
    label: set.label, name: set.name || set.label, data: points(set.list, from), borderColor: set.color, backgroundColor: set.color, borderDash: set.dash || [],
  }));
  chart.update("none");
}

function drawCharts() {
  const from = firstShown(), all = lines();
  const busiest = (...names) => [...all].sort((a, b) => names.reduce((t, n) => t + sum(b.values[n], from) - sum(a.values[n], from), 0));
  const single = (name) => busiest(name).slice(0, SERIES_MAX).map((l) => ({ label: l.name, list: l.values[name], color: colorOf(l.name) }));
  const double = (into, out, one, two) => busiest(into, out).slice(0, SERIES_MAX / 2).flatMap((l) => [
    { label: l.name + " " + one, name: l.name, list: l.values[into], color: colorOf(l.name) },
    { label: l.name + " " + two, name: l.name, list: l.values[out], color: colorOf(l.name), dash: [5, 3] }]);
  draw(state.charts.cpu, single("cpu"), from);
  draw(state.charts.memory, single("memory"), from);
  draw(state.charts.network, double("rx", "tx", "in", "out"), from);
  draw(state.charts.block, double("read", "write", "read", "write"), from);
  $("more").textContent = all.length > SERIES_MAX ? `The charts show the ${SERIES_MAX} busiest of ${all.length}; the filter chooses others.` : "";
  const workers = [...state.trainings.values()];
  $("training").hidden = workers.length === 0;
  if (!workers.length) return;
  draw(state.charts.loss, workers.slice(0, SERIES_MAX).map((t) => ({ label: t.info.slot, list: t.values.loss, color: colorOf(t.info.slot) })), from);
  draw(state.charts.step, workers.slice(0, SERIES_MAX).map((t) => ({ label: t.info.slot, list: t.values.step_ms, color: colorOf(t.info.slot) })), from);
}

// ---- tables ----

const COLUMNS = [
  { key: "name", label: "Name", value: (r) => r.info.name, text: (r) => r.info.name },
  { key: "service", label: "Service", value: (r) => r.info.service, text: (r) => r.info.service || "–" },
  { key: "cpu", label: "CPU", number: true, value: (r) => newest(r.values.cpu) ?? -1, text: (r) => percent(newest(r.values.cpu)) },
  { key: "memory", label: "Memory", number: true, value: (r) => newest(r.values.memory) ?? -1, text: (r) => bytes(newest(r.values.memory)) },
  { key: "limit", label: "of limit", number: true, value: (r) => (newest(r.values.memory) ?? 0) / (r.info.limit || Infinity), text: (r) => r.info.limit ? percent(100 * (newest(r.values.memory) ?? NaN) / r.info.limit) : "–" },
  { key: "rx", label: "Received", number: true, value: (r) => newest(r.values.rx) ?? -1, text: (r) => rate(newest(r.values.rx)) },
  { key: "tx", label: "Sent", number: true, value: (r) => newest(r.values.tx) ?? -1, text: (r) => rate(newest(r.values.tx)) },
  { key: "read", label: "Read", number: true, value: (r) => newest(r.values.read) ?? -1, text: (r) => rate(newest(r.values.read)) },
  { key: "write", label: "Written", number: true, value: (r) => newest(r.values.write) ?? -1, text: (r) => rate(newest(r.values.write)) },
  { key: "threads", label: "Threads", number: true, value: (r) => r.info.threads, text: (r) => r.info.threads || "–" },
  { key: "image", label: "Image", value: (r) => r.info.image, text: (r) => r.info.image.replace(/@sha256:.*/, "") || "–" },
];

function makeHead() {
  const row = $("table").tHead.rows[0];
  for (const column of COLUMNS) {
    const cell = document.createElement("th"), button = document.createElement("button");
    cell.scope = "col";
    if (column.number) cell.className = "number";
    button.type = "button";
    button.textContent = column.label;
    button.addEventListener("click", () => {
      state.sort = { key: column.key, down: state.sort.key === column.key ? !state.sort.down : Boolean(column.number) };
      show();
    });
    cell.append(button);
    row.append(cell);
  }
}

// Rows are reused, so that a selection and the focus stay where they are.
function fillRows(body, rows, cells) {
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((row, i) => {
    const line = body.rows[i] || body.insertRow();
    cells(row).forEach((cell, c) => {
      let at = line.cells[c];
      if (!at) {
        at = document.createElement(c === 0 ? "th" : "td");
        if (c === 0) at.scope = "row";
        line.append(at);
      }
      const kind = cell.kind || "";
      if (at.className !== kind) at.className = kind;
      if (at.textContent !== String(cell.text)) at.textContent = cell.text;
      if (c === 0) at.title = cell.text;
    });
  });
}

function showTables() {
  const rows = [...state.containers.values()].filter((r) => !r.info.machine && r.info.running && matches(r.info));
  const column = COLUMNS.find((c) => c.key === state.sort.key), sign = state.sort.down ? -1 : 1;
  rows.sort((a, b) => {
    const left = column.value(a), right = column.value(b);
    return sign * (left < right ? -1 : left > right ? 1 : 0) || a.info.name.localeCompare(b.info.name);
  });
  COLUMNS.forEach((c, i) => {
    const cell = $("table").tHead.rows[0].cells[i];
    if (c.key === state.sort.key) cell.setAttribute("aria-sort", state.sort.down ? "descending" : "ascending");
    else cell.removeAttribute("aria-sort");
  });
  fillRows($("table").tBodies[0], rows, (r) => COLUMNS.map((c) => ({ text: c.text(r), kind: c.number ? "number" : "" })));
  $("none").hidden = rows.length > 0;
  $("none").textContent = $("filter").value ? "No container fits the filter." : "No containers run on this node.";
  fillRows($("workers"), [...state.trainings.values()], ({ info, values }) => [
    { text: info.slot },
    { text: info.state, kind: info.state === "failed" ? "failed" : info.state === "done" ? "gone" : "" },
    { text: info.epoch + " / " + info.epochs, kind: "number" },
    { text: info.step + " / " + info.steps, kind: "number" },
    { text: digits(newest(values.loss), 4), kind: "number" },
    { text: percent(newest(values.accuracy) === null ? null : 100 * newest(values.accuracy)), kind: "number" },
    { text: digits(newest(values.step_ms), 4), kind: "number" },
    { text: info.members ?? "–", kind: "number" },
    { text: info.recoveries, kind: "number" }]);
}

function showTiles() {
  const machine = [...state.containers.values()].find((c) => c.info.machine);
  const running = [...state.containers.values()].filter((c) => !c.info.machine && c.info.running).length;
  const tiles = [["Containers", String(running), ""]];
  if (machine) {
    const memory = newest(machine.values.memory);
    tiles.push(["CPU", percent((newest(machine.values.cpu) ?? NaN) / (state.about.cpus || 1)), `of ${state.about.cpus} cores`]);
    tiles.push(["Memory", bytes(memory), "of " + bytes(state.about.memory)]);
    tiles.push(["Received", rate(newest(machine.values.rx)), ""], ["Sent", rate(newest(machine.values.tx)), ""]);
    tiles.push(["Read", rate(newest(machine.values.read)), ""], ["Written", rate(newest(machine.values.write)), ""]);
  }
  const list = $("tiles");
  while (list.children.length > tiles.length) list.lastChild.remove();
  tiles.forEach(([label, value, note], i) => {
    let box = list.children[i];
    if (!box) {
      box = document.createElement("div");
      box.append(document.createElement("dt"), document.createElement("dd"));
      box.children[1].append(document.createTextNode(""), document.createElement("small"));
      list.append(box);
    }
    box.children[0].textContent = label;
    box.children[1].firstChild.data = value + " ";
    box.children[1].lastChild.textContent = note;
  });
}

function show() {
  $("node").textContent = state.about.node || "muster-monitor";
  document.title = (state.about.node || "") + " – muster-monitor";
  $("about").textContent = [state.about.os, state.about.kernel, state.about.engine && "Docker " + state.about.engine, "muster " + state.about.version].filter(Boolean).join(" · ");
  showTiles();
  showTables();
  drawCharts();
}

// ---- asking ----

function say(text, isBad) {
  if ($("status").textContent !== text) $("status").textContent = text;
  $("status").className = isBad ? "bad" : "";
}

// Longer ranges are another history, in longer steps: the two do not mix.
function chooseRange() {
  const isDay = "day" in $("range").selectedOptions[0].dataset;
  if (isDay !== state.isDay) {
    state.isDay = isDay;
    state.times = [];
    state.last = 0;
    state.containers.clear();
    state.trainings.clear();
    state.generation++;
  }
  show();
}

async function ask() {
  const response = await fetch("api/v1/history?" + (state.isDay ? "range=day&" : "") + "since=" + state.last.toFixed(3), { cache: "no-store", signal: AbortSignal.timeout(POLL_MAX_MS) });
  if (!response.ok) throw new Error(response.status + " " + response.statusText);
  return response.json();
}

async function poll() {
  try {
    if (!state.paused && document.visibilityState !== "hidden") {
      const generation = state.generation, data = await ask();
      const hasNews = data.times.length > 0;
      if (generation === state.generation && (hasNews || !state.about.node)) { take(data); show(); }
      const age = Date.now() / 1000 - state.last;
      say(age < (state.isDay ? 300 : 30) ? "live" : state.last ? "recorded until " + new Date(state.last * 1000).toLocaleString() : "waiting for the first sample", false);
    }
    state.wait = POLL_MS;
  } catch (error) {
    say("not reachable, trying again (" + error.message + ")", true);
    state.wait = Math.min(state.wait * 2, POLL_MAX_MS);
  }
  setTimeout(poll, state.wait);
}

function start() {
  makeHead();
  state.charts = { cpu: makeChart("chart-cpu", percent, 1), memory: makeChart("chart-memory", bytes, 1048576), network: makeChart("chart-network", rate, 1024),
    block: makeChart("chart-block", rate, 1024), loss: makeChart("chart-loss", (v) => digits(v, 3), 0), step: makeChart("chart-step", (v) => digits(v, 3), 0) };
  const hasCharts = state.charts.cpu !== null;
  $("no-charts").hidden = hasCharts;
  $("charts").hidden = !hasCharts;
  $("range").addEventListener("change", chooseRange);
  $("group").addEventListener("change", show);
  $("filter").addEventListener("input", show);
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  $("pause").addEventListener("click", () => {
    state.paused = !state.paused;
    $("pause").textContent = state.paused ? "Go on" : "Pause";
    $("pause").setAttribute("aria-pressed", String(state.paused));
    if (state.paused) say("paused", false);
  });
  dark.addEventListener("change", show);
  poll();
}

start();
