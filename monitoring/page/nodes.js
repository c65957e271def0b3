// SPDX-License-Identifier: Apache-2.0
"use strict";

// The other nodes, if the server was told of any: a table with links, and two charts. The server asks them; this page
// asks only its own server.
const NODES_POLL_MS = 5000;
const nodes = { charts: {}, said: { nodes: [], times: [] } };

function nodeCell(row, index, kind) {
  const cell = row.cells[index] || row.appendChild(document.createElement(index === 0 ? "th" : "td"));
  if (index === 0) cell.scope = "row";
  if (cell.className !== kind) cell.className = kind;
  return cell;
}

// A link stays the same element while its node is the same, so that the focus stays on it.
function nameCell(row, node) {
  const cell = nodeCell(row, 0, ""), isLink = /^https?:\/\//.test(node.link);
  let at = cell.firstElementChild;
  if (!at || (at.tagName === "A") !== isLink) {
    at = document.createElement(isLink ? "a" : "span");
    cell.replaceChildren(at);
  }
  if (at.textContent !== node.name) at.textContent = node.name;
  if (isLink && at.getAttribute("href") !== node.link) at.href = node.link;
  cell.title = node.name;
}

function showNodeRows() {
  const body = $("nodes-rows"), list = nodes.said.nodes;
  while (body.rows.length > list.length) body.deleteRow(-1);
  list.forEach((node, i) => {
    const row = body.rows[i] || body.insertRow(), cpu = newest(node.cpu), memory = newest(node.memory);
    nameCell(row, node);
    [[node.fault || "answers", node.fault ? "failed wrap" : ""],
      [node.fault ? "–" : percent(cpu ?? NaN), "number"],
      [node.cpus || "–", "number"],
      [node.fault ? "–" : bytes(memory), "number"],
      [node.limit ? bytes(node.limit) : "–", "number"],
      [node.fault ? "–" : node.containers, "number"]].forEach(([text, kind], c) => {
      const cell = nodeCell(row, c + 1, kind);
      if (cell.textContent !== String(text)) cell.textContent = text;
    });
  });
  const hidden = nodes.said.total - list.length;
  $("nodes-more").textContent = nodes.said.fault || (hidden > 0 ? `${hidden} more are not shown.` : "");
}

function drawNodes(chart, value) {
  if (!chart) return;
  const ink = css("--quiet"), line = css("--line"), times = nodes.said.times;
  for (const axis of [chart.options.scales.x, chart.options.scales.y]) { axis.ticks.color = ink; axis.grid.color = line; }
  chart.options.scales.x.min = times[0];
  chart.options.scales.x.max = times[times.length - 1];
  chart.options.scales.y.max = 100;
  chart.data.datasets = nodes.said.nodes.slice(0, SERIES_MAX).map((node) => ({
    label: node.name, name: node.name, borderColor: colorOf("node " + node.name), backgroundColor: colorOf("node " + node.name), borderDash: [],
    data: times.map((time, i) => ({ x: time, y: value(node, i) })),
  }));
  chart.update("none");
}

function showNodes() {
  $("nodes").hidden = nodes.said.nodes.length === 0;
  if ($("nodes").hidden) return;
  showNodeRows();
  drawNodes(nodes.charts.cpu, (node, i) => node.cpu[i] ?? null);
  drawNodes(nodes.charts.memory, (node, i) => node.limit && node.memory[i] !== null ? 100 * node.memory[i] / node.limit : null);
}

async function pollNodes() {
  try {
    if (!state.paused && document.visibilityState !== "hidden") {
      const response = await fetch("api/v1/nodes", { cache: "no-store", signal: AbortSignal.timeout(POLL_MAX_MS) });
      if (!response.ok) throw new Error(response.status + " " + response.statusText);
      nodes.said = await response.json();
      if (!nodes.said.told) return; // it knows of none: not asked again
      showNodes();
    }
  } catch (error) {
    $("nodes-more").textContent = "not reachable (" + error.message + ")"; // page.js says so for the whole page
  }
  setTimeout(pollNodes, nodes.said.nodes.length ? NODES_POLL_MS : POLL_MS);
}

nodes.charts = { cpu: makeChart("chart-node-cpu", percent, 100), memory: makeChart("chart-node-memory", percent, 100) };
$("nodes-charts").hidden = nodes.charts.cpu === null;
dark.addEventListener("change", showNodes);
pollNodes();
