// What pods use of their cards, where the page has a Prometheus. What is not known is never 0.

import { tellTime } from "./words.js";

const WHY = {
  CardShared: "only its card is reported, which other pods use too",
  NotMeasured: "no exporter reports it",
};

/** The pods of each node and what they use, by the nodes' names; null where nothing is told of that. */
export function groupUse({ use }) {
  if (!use || !(use.readAt || use.problem)) return null;
  const nodes = new Map();
  for (const [pod, each] of Object.entries(use.pods)) {
    if (!nodes.has(each.node)) nodes.set(each.node, {});
    nodes.get(each.node)[pod] = each;
  }
  return nodes;
}

/** What is wrong with what is told of use, in a line; empty where nothing is. */
export function tellTrouble(use) {
  if (!use) return "";
  if (use.problem) return `? Use is not known since ${tellTime(use.problem.since)}: ${use.problem.message}`;
  return use.warnings.length ? `⚠ Use may be incomplete, Prometheus warns: ${use.warnings.join("; ")}` : "";
}

/** Whether it is known what a pod uses. */
export function isKnown(use) {
  return typeof use?.usedGib === "number";
}

/** An amount in a plugin's unit, without the unit. */
export function tellAmount(gib, unit) {
  const [amount, digits] = unit === "MiB" ? [gib * 1024, 0] : [gib, 1];
  const rounded = Number(amount.toFixed(digits));
  return amount > 0 && rounded === 0 ? `<${10 ** -digits}` : String(rounded);
}

/** What one pod uses, in words: {text, why}. Of several cards Prometheus is asked for their sum. */
export function describeUse(use, unit) {
  if (!isKnown(use)) return { text: "unknown", why: WHY[use?.unknown] ?? "" };
  const facts = [];
  if (use.cards > 1) facts.push(`on its ${use.cards} cards together`);
  if (use.beyond) facts.push("more than it asked for");
  return { text: tellAmount(use.usedGib, unit), why: facts.join(", ") };
}

/** What the pods of a card use together: {amount, said, isBeyond}; null where it has none. The sum is
 * complete only where each is known, and is of this card alone. */
export function sumUse(card, use, unit) {
  const holders = Object.entries(card.held).filter(([, units]) => units > 0);
  if (holders.length === 0) return null;
  const uses = holders.map(([pod]) => use[pod]);
  const counted = uses.filter((each) => isKnown(each) && each.cards <= 1);
  const isBeyond = uses.some((each) => each?.beyond);
  if (counted.length === 0) return { amount: "?", said: "used unknown", isBeyond };
  const sum = tellAmount(counted.reduce((total, each) => total + each.usedGib, 0), unit);
  return counted.length === uses.length
    ? { amount: sum, said: `used ${sum}`, isBeyond }
    : { amount: `≥${sum}`, said: `used at least ${sum}`, isBeyond };
}
