// What is known of one node, or one pod that waits, beside the grid.

import { make } from "./elements.js";
import { describeUse, isKnown, sumUse, tellAmount } from "./use.js";
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

function drawNode({ item: node, pool, unit, use }) {
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
    ...node.cards.map((card) => drawCard(card, unit, use)),
    ...drawOthers(node, use),
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

function drawCard(card, unit, use) {
  const sum = use && sumUse(card, use, unit);
  const title = `GPU ${card.index}: ${card.allocated}/${card.total || "?"} ${unit}${sum ? `, ${sum.said}` : ""}`;
  const pods = Object.entries(card.held);
  if (pods.length === 0) return make("h3", {}, title);
  const rows = pods.map(([pod, units]) => [pod, units, units ? use?.[pod] : null]);
  return make("section", {}, make("h3", {}, title), drawPods(rows, "Holds", unit, use));
}

/** Pods that are on none of the cards above, such as those that hold whole cards. */
function drawOthers(node, use) {
  const held = new Set(node.cards.flatMap((card) => card.pods));
  const others = Object.entries(use ?? {}).filter(([pod]) => !held.has(pod));
  if (others.length === 0) return [];
  const rows = others.map(([pod, each]) => [pod, each.askedGib === null ? "?" : tellAmount(each.askedGib, "GiB"), each]);
  const title = node.cards.length ? "Pods on no known card" : "Pods with GPUs";
  return [make("section", {}, make("h3", {}, title), drawPods(rows, "Asked", "GiB", use))];
}

/** A table of pods, what they hold, and what they use where anything is told of that. */
function drawPods(pods, amount, unit, use) {
  const heads = ["Pod", `${amount} ${unit}`, ...(use ? [`Uses ${unit}`] : [])];
  const rows = pods.map(([pod, units, each]) => {
    const { text, why } = use && each !== null ? describeUse(each, unit) : { text: "–", why: "" };
    const name = make("td", {}, pod, ...(why ? [make("p", { class: "soft" }, why)] : []));
    const cells = [name, make("td", {}, String(units))];
    if (use) cells.push(make("td", { class: classOfUse(each) }, each?.beyond ? `⚠ ${text}` : text));
    return make("tr", {}, ...cells);
  });
  const head = make("tr", {}, ...heads.map((each) => make("th", { scope: "col" }, each)));
  return make("table", { class: use ? "with-use" : null }, make("thead", {}, head), make("tbody", {}, ...rows));
}

function classOfUse(use) {
  if (use === null) return null;
  if (!isKnown(use)) return "unknown";
  return use.beyond ? "beyond" : null;
}
