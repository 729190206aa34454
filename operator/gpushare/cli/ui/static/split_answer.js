// What would run on a split: figures of the pools before and after, and what the change takes.

import { make } from "./elements.js";
import { count } from "./rows.js";

const MOST_ROWS = 100;
const FIGURES = [
  ["Mode", (pool) => pool.schedule],
  ["Nodes", (pool) => pool.nodes],
  ["Cards", (pool) => pool.gpus],
  ["Allocated", describeAllocated],
  ["Placed", (pool) => pool.placed],
  ["Pending", (pool) => pool.pending],
  ["Largest free", (pool) => `${pool.largestFreeBlockGiB} GiB`],
  ["Stranded", (pool) => `${pool.strandedMemoryGiB} GiB`],
];

/** All that is told of a split of these nodes. */
export function drawAnswer(told, shared, isOpen) {
  const steps = told.plan.flatMap((pool) => pool.steps);
  return [
    make("h2", {}, summarize(told)),
    make("ul", {}, ...listFacts(told, steps).map((fact) => make("li", {}, fact))),
    drawPools(told, shared),
    drawTable("Pods that must go first", ["Pod", "Then"], told.mustGo.map(describeMove)),
    drawTable("Pods that stay pending", ["Pod", "Pool", "Why", "Smallest change"], told.pending.map(describePending)),
    drawTable("Nodes that change", ["Node", "Pool", "Mode", "Does", "Waits for"], steps.map(describeStep)),
    make(
      "details",
      isOpen ? { open: "" } : {},
      make("summary", {}, "The same in a terminal, with the pools as YAML"),
      make("p", {}, "The best split of these nodes: ", make("code", {}, told.search)),
      make("pre", { tabindex: 0, role: "region", "aria-label": "Command and YAML" }, ...keepLines(told.command)),
    ),
  ].filter(Boolean);
}

function summarize({ pods, placed, placedToday, fewest, most }) {
  if (pods === 0) return "No pod waits";
  const range = fewest < most ? ` (${fewest} to ${most}, by which of equal nodes are taken)` : "";
  return `${placed} of ${count(pods, "waiting pod")} would run${range}, ${placedToday} as it is today`;
}

function listFacts({ changes, displaced, unknownNodes, leftOut, plan }, steps) {
  const restarts = steps.filter((step) => step.restartsPlugin).length;
  const blocked = steps.filter((step) => step.blocker).length;
  const later = blocked > 0 ? `, and what ${count(blocked, "blocked node")} need later` : "";
  const alone = displaced.withoutController;
  return [
    `${count(changes, "node")} to get another mode; ${count(restarts, "device plugin")} to restart${later}`,
    displaced.pods > 0
      ? `⚠ ${count(displaced.pods, "running pod")} must go first; ${displaced.placed} would run again`
      : "No running pod must go",
    alone.length > 0 && `⚠ No controller creates them again: ${alone.join(", ")}`,
    unknownNodes.length > 0 && `⚠ Unknown what these nodes will offer, counted as nothing: ${unknownNodes.join(", ")}`,
    ...leftOut.map((each) => `Left out: ${count(each.pods, "waiting pod")}, because ${each.why}`),
    ...plan.filter((pool) => pool.waitsForApproval).map((pool) => `Pool ${pool.name} waits for approval`),
  ].filter(Boolean);
}

/** The pools that share the nodes, and others of which a figure changes. */
function drawPools({ pools }, shared) {
  const own = new Set(shared.pools.map((pool) => pool.name));
  const rows = pools
    .filter((pool) => own.has(pool.name) || JSON.stringify(pool.today) !== JSON.stringify(pool.split))
    .map((pool) => [pool.name, ...FIGURES.map(([, tell]) => compare(pool, tell))]);
  return drawTable("Pools, as it is today → on this split", ["Pool", ...FIGURES.map(([name]) => name)], rows);
}

function compare({ today, split }, tell) {
  const [before, after] = [today, split].map((figures) => (figures ? tell(figures) : "–"));
  return before === after ? after : make("td", { class: "changed" }, `${before} → ${after}`);
}

function describeAllocated({ memoryTotalGiB, memoryAllocatedGiB, resources }) {
  if (memoryTotalGiB) return `${memoryAllocatedGiB}/${memoryTotalGiB} GiB`;
  return resources.map((each) => `${each.requested}/${each.allocatable} ${each.name}`).join(", ") || "0";
}

function describeMove({ namespace, name, pool, node }) {
  return [`${namespace}/${name}`, node ? `runs again in pool ${pool || "–"}` : "stays pending"];
}

function describePending({ origin, namespace, name, pods, pool, reason, message, remedy }) {
  const more = pods > 1 ? ` and ${pods - 1} more like it` : "";
  const goes = origin === "displaced" ? ", which must go first" : "";
  return [`${namespace}/${name}${more}${goes}`, pool || "–", `${reason}: ${message}`, remedy];
}

function describeStep(step) {
  const does = [
    step.leaves && "leaves",
    step.cordons && "cordon",
    step.evictedPods.length > 0 && `evict ${count(step.evictedPods.length, "pod")}`,
    step.restartsPlugin && "restart plugin",
    step.reboots && "reboot",
  ];
  return [
    step.node,
    step.fromPool && step.pool !== step.fromPool ? `${step.fromPool} → ${step.pool}` : step.pool,
    step.change,
    does.filter(Boolean).join(", ") || (step.blocker ? "" : "labels only"),
    step.blocker ? `${step.blocker}: ${step.message}` : "",
  ];
}

/** A table with its title, whose first column names the row; null without rows. */
function drawTable(title, header, rows) {
  if (rows.length === 0) return null;
  const body = rows.slice(0, MOST_ROWS).map(([name, ...cells]) =>
    make(
      "tr",
      {},
      make("th", { scope: "row" }, name),
      ...cells.map((cell) => (cell instanceof Node ? cell : make("td", {}, cell))),
    ),
  );
  const left = rows.length - body.length;
  const caption = left > 0 ? `${title} (${left} more are not shown)` : title;
  const head = make("tr", {}, ...header.map((name) => make("th", { scope: "col" }, name)));
  return make(
    "div",
    { class: "table", role: "region", "aria-label": title, tabindex: 0 },
    make("table", {}, make("caption", {}, caption), make("thead", {}, head), make("tbody", {}, ...body)),
  );
}

/** Text whose lines stay lines: their ends are no controls here. */
function keepLines(text) {
  return text.split("\n").flatMap((line) => [line, document.createTextNode("\n")]);
}
