// What is in a row.

import { line, make, tame } from "./elements.js";
import { namespaceOf } from "./rows.js";
import { describeCard, describeIsolation, describeMode, describeRequest, describeState } from "./words.js";

/** The cells of a row. */
export function drawRow(row) {
  switch (row.kind) {
    case "pool":
      return drawPool(row);
    case "node":
      return drawNode(row);
    case "pod":
      return drawPod(row);
    case "unreadable":
      return band(row.item.name, `its ${row.item.part} can't be read: ${row.item.error}`, "failed");
    default:
      return band(row.item.title, row.item.text);
  }
}

/** Classes of a row's element. */
export function classesOf(row) {
  const isBand = row.kind !== "node" && row.kind !== "pod";
  return `row ${row.kind}${isBand ? " band" : " opens"}`;
}

function band(name, text, classes = "soft") {
  return [
    make("div", { role: "rowheader" }, line(name, "name")),
    make("div", { role: "gridcell", "aria-colspan": 3 }, line(text, classes)),
  ];
}

function drawPool({ item: pool, total }) {
  const memory = `${pool.memoryAllocatedGiB}/${pool.memoryTotalGiB} GiB allocated`;
  const facts = [
    `${pool.nodesReady}/${total} nodes ready`,
    `${pool.gpus} GPUs`,
    memory,
    `largest free block ${pool.largestFreeBlockGiB} GiB`,
    `stranded ${pool.strandedMemoryGiB} GiB`,
  ];
  return [
    make("div", { role: "rowheader" }, line(pool.name, "name")),
    make(
      "div",
      { role: "gridcell", "aria-colspan": 3 },
      line(`${pool.schedule} (${pool.edition})`),
      line(facts.join(" · "), "soft"),
    ),
  ];
}

function drawNode({ item: node, pool, unit, namespace }) {
  const state = describeState(node);
  const isolation = describeIsolation(node.isolation);
  return [
    make("div", { role: "rowheader" }, line(node.name, "name"), line(describeMode(node, pool), "soft")),
    make("div", { role: "gridcell", class: "state" }, line(state.text, state.classes), line(state.why, "soft")),
    make("div", { role: "gridcell", class: "isolation" }, line(isolation.text, isolation.classes), line(isolation.why, "soft")),
    make("div", { role: "gridcell", class: "cards" }, ...drawCards(node, unit, namespace)),
  ];
}

function drawCards(node, unit, namespace) {
  if (node.cards.length === 0) {
    const told = (node.resources ?? []).map((each) => `${each.requested}/${each.allocatable} ${each.name}`);
    return [line(told.join(", ") || "no GPU memory is shared", "soft")];
  }
  return node.cards.map((card) => {
    const label = tame(describeCard(card, unit));
    const total = card.total || "?";
    return make(
      "div",
      { class: "card", role: "img", "aria-label": label, title: label },
      drawBar(card, namespace),
      make("p", { "aria-hidden": "true" }, make("span", { class: "index" }, `${card.index}: `), `${card.allocated}/${total}`),
    );
  });
}

function drawBar(card, namespace) {
  const bar = make("div", { class: `bar${card.overcommitted ? " over" : ""}${card.total ? "" : " lost"}` });
  for (const [pod, units] of Object.entries(card.held)) {
    if (units === 0) continue;
    const isOther = namespace && namespaceOf(pod) !== namespace;
    const name = make("span", {}, pod.slice(pod.indexOf("/") + 1));
    const held = make("span", { class: isOther ? "held other" : "held" }, name);
    // The policy of the page allows no style in markup; this is none.
    held.style.flexGrow = units;
    bar.append(held);
  }
  const rest = make("span", { class: "rest" });
  rest.style.flexGrow = Math.max(card.total - card.allocated, 0);
  bar.append(rest);
  return bar;
}

function drawPod({ item: pod, unit }) {
  const asks = `asks for ${describeRequest(pod, unit)}`;
  const pools = pod.pools.length ? `pool ${pod.pools.join(" or ")}` : "no pool";
  return [
    make("div", { role: "rowheader" }, line(pod.name, "name"), line(pod.namespace, "soft")),
    make("div", { role: "gridcell", class: "state" }, line(`… ${pod.reason}`, "waiting"), line(`${asks}, ${pools}`, "soft")),
    make("div", { role: "gridcell", class: "message", "aria-colspan": 2 }, line(pod.message)),
  ];
}
