// What is in a row.

import { line, make, tame } from "./elements.js";
import { namespaceOf } from "./rows.js";
import { describeUse, isKnown, sumUse } from "./use.js";
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

function drawNode({ item: node, pool, unit, namespace, use }) {
  const state = describeState(node);
  const isolation = describeIsolation(node.isolation);
  return [
    make("div", { role: "rowheader" }, line(node.name, "name"), line(describeMode(node, pool), "soft")),
    make("div", { role: "gridcell", class: "state" }, line(state.text, state.classes), line(state.why, "soft")),
    make("div", { role: "gridcell", class: "isolation" }, line(isolation.text, isolation.classes), line(isolation.why, "soft")),
    make("div", { role: "gridcell", class: "cards" }, ...drawCards(node, unit, namespace, use)),
  ];
}

function drawCards(node, unit, namespace, use) {
  if (node.cards.length === 0) {
    const told = (node.resources ?? []).map((each) => `${each.requested}/${each.allocatable} ${each.name}`);
    return [line(told.join(", ") || "no GPU memory is shared", "soft")];
  }
  return node.cards.map((card) => {
    const sum = use && sumUse(card, use, unit);
    const label = tame(describeCard(card, unit, sum?.said, (pod) => (use ? sayUse(use[pod], unit) : "")));
    const total = card.total || "?";
    return make(
      "div",
      { class: "card", role: "img", "aria-label": label, title: label },
      drawBar(card, namespace, use),
      make("p", { "aria-hidden": "true" }, make("span", { class: "index" }, `${card.index}: `), `${card.allocated}/${total}`, ...drawSum(sum)),
    );
  });
}

/** A pod's use, behind what it holds. */
function sayUse(use, unit) {
  if (!isKnown(use)) return " (use unknown)";
  const { text, why } = describeUse(use, unit);
  return ` (used ${text}${why && `, ${why}`})`;
}

function drawSum(sum) {
  if (!sum) return [];
  const amount = sum.isBeyond ? `${sum.amount} ⚠` : sum.amount;
  const uses = make("span", { class: sum.isBeyond ? "uses beyond" : "uses" }, make("span", { class: "word" }, "used "), amount);
  return [make("span", { class: "comma" }, ", "), uses];
}

function drawBar(card, namespace, use) {
  const bar = make("div", { class: `bar${card.overcommitted ? " over" : ""}${card.total ? "" : " lost"}` });
  for (const [pod, units] of Object.entries(card.held)) {
    if (units === 0) continue;
    const isOther = namespace && namespaceOf(pod) !== namespace;
    const name = pod.slice(pod.indexOf("/") + 1);
    const held = make("span", { class: isOther ? "held other" : "held" });
    if (use) held.append(...drawUse(held, use[pod], name));
    else held.append(make("span", {}, name));
    // The policy of the page allows no style in markup; this is none.
    held.style.flexGrow = units;
    bar.append(held);
  }
  const rest = make("span", { class: "rest" });
  rest.style.flexGrow = Math.max(card.total - card.allocated, 0);
  bar.append(rest);
  return bar;
}

/** The used part of a pod's block, and its name with a sign: what has no such part is unknown. */
function drawUse(held, use, name) {
  held.classList.add("measured");
  if (!isKnown(use)) return [make("span", {}, `? ${name}`)];
  if (use.beyond) held.classList.add("beyond");
  const used = make("i", { class: "used" });
  used.style.width = `${use.askedGib ? Math.min(use.usedGib / use.askedGib, 1) * 100 : 0}%`;
  return [used, make("span", {}, use.beyond ? `⚠ ${name}` : name)];
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
