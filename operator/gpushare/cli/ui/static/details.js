// All that is known of one row, beside the grid.

import { make } from "./elements.js";
import { describeChange, describeIsolation, describeMode, describeState, tellTime } from "./words.js";

/** Whether a row has more to say than it shows. */
export function hasDetails(row) {
  return row.kind === "node" || row.kind === "pod";
}

/** What the panel holds for a row. */
export function drawDetails(row) {
  return row.kind === "node" ? drawNode(row.item, row.pool) : drawPod(row.item);
}

function drawNode(node, pool) {
  const { change, isolation } = node;
  const state = describeState(node);
  const facts = [
    ["Pool", pool?.name ?? "none"],
    ["Mode", describeMode(node, pool)],
    ["Applied", node.modeApplied],
    ["State", state.text],
    ["Why", node.message ?? state.why],
    ["Takes pods", node.takesPods ? "yes" : node.cordoned ? "no, it is cordoned" : "no, it is not Ready"],
    ["Change", change && `${describeChange(change)}, since ${tellTime(change.since)}`],
    ["Deadline", change?.deadline && tellTime(change.deadline)],
    ["It failed", change?.failed],
    ["Isolation", isolation && describeWhole(isolation)],
  ];
  return [
    heading(node.name),
    drawFacts(facts),
    ...drawStale(isolation?.samples ?? []),
    ...node.cards.map((card) => drawCard(card, pool?.unit ?? "")),
  ];
}

function drawPod(pod) {
  return [
    heading(`${pod.namespace}/${pod.name}`),
    drawFacts([
      ["Reason", pod.reason],
      ["Why", pod.message],
      ["Asks for", pod.requested || "no GPU memory"],
      ["Pools", pod.pools.join(" or ") || "none"],
    ]),
  ];
}

function heading(text) {
  return make("h2", { id: "details-title", tabindex: -1 }, text);
}

function drawFacts(facts) {
  const told = facts.filter(([, value]) => value);
  return make("dl", {}, ...told.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, String(value))]));
}

function describeWhole(isolation) {
  const { text, why } = describeIsolation(isolation);
  return `${text}: ${why}`;
}

function drawStale(samples) {
  if (samples.length === 0) return [];
  const list = make("ul", {}, ...samples.map((sample) => make("li", {}, sample)));
  return [make("h3", { class: "stale" }, "⚠ Stale isolation"), list];
}

function drawCard(card, unit) {
  const title = `GPU ${card.index}: ${card.allocated}/${card.total || "?"} ${unit}`;
  const pods = Object.entries(card.held);
  if (pods.length === 0) return make("h3", {}, title);
  const rows = pods.map(([pod, units]) => make("tr", {}, make("td", {}, pod), make("td", {}, String(units))));
  const head = make("tr", {}, make("th", { scope: "col" }, "Pod"), make("th", { scope: "col" }, `Holds ${unit}`));
  return make("section", {}, make("h3", {}, title), make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
}
