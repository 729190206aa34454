// What is known of one node, or one pod that waits, beside the grid.

import { make } from "./elements.js";
import {
  describeChange,
  describeIsolation,
  describeMode,
  describeRequest,
  describeState,
  tellAway,
  tellTime,
} from "./words.js";

/** Whether a row has more to say than it shows. */
export function hasDetails(row) {
  return row.kind === "node" || row.kind === "pod";
}

/** What the panel holds for a row. */
export function drawDetails(row) {
  return row.kind === "node" ? drawNode(row) : drawPod(row);
}

function drawNode({ item: node, pool, unit }) {
  const { change, isolation } = node;
  const state = describeState(node);
  const facts = [
    ["Pool", pool?.name ?? "none"],
    ["Mode", describeMode(node, pool)],
    ["Applied", node.modeApplied],
    ["State", state.text],
    ["Why", node.message ?? state.why],
    ["Takes pods", node.takesPods ? "yes" : `no, ${tellAway(node)}`],
    ["Change", change && `${describeChange(change)}, since ${tellTime(change.since)}`],
    ["Deadline", change?.deadline && tellTime(change.deadline)],
    ["Failure", change?.failed],
    ["Isolation", isolation && describeWhole(isolation)],
  ];
  return [
    heading(node.name),
    drawFacts(facts),
    ...drawStale(isolation?.samples ?? []),
    ...node.cards.map((card) => drawCard(card, unit)),
  ];
}

function drawPod({ item: pod, unit }) {
  return [
    heading(`${pod.namespace}/${pod.name}`),
    drawFacts([
      ["Reason", pod.reason],
      ["Why", pod.message],
      ["Asks for", describeRequest(pod, unit)],
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
