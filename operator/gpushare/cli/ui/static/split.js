// Nodes that pools share, divided by hand: the numbers go to the server, what it finds is drawn.

import { make } from "./elements.js";
import { Feed } from "./feed.js";
import { setText, showFreshness, showHeader } from "./header.js";
import { count } from "./rows.js";
import { shift } from "./sizes.js";
import { drawAnswer } from "./split_answer.js";
import { tellTime } from "./words.js";

const find = (id) => document.getElementById(id);
const select = find("split").elements.nodes;
let choices = [];
let shared = null; // The choice of nodes.
let sizes = []; // The number of nodes in each pool, and at the end of those in none.
let asked = false; // Whether a request is under way.
let wanted = null; // The query to ask next.

const feed = new Feed(() => showHeader(feed));
setInterval(() => showFreshness(feed), 1000);
feed.start();

find("split").addEventListener("submit", (event) => event.preventDefault());
select.addEventListener("change", () => choose(choices[select.selectedIndex]));
find("again").addEventListener("click", read);
find("today").addEventListener("click", () => shared && choose(shared));
window.addEventListener("hashchange", read);
read();

/** Ask which nodes there are, and keep the split that the address names. */
async function read() {
  const told = await request("");
  if (told === null) return;
  choices = told.shared;
  setText(find("notice"), told.why);
  find("split").hidden = find("answer").hidden = choices.length === 0;
  select.replaceChildren(...choices.map((each) => make("option", {}, describe(each))));
  const kept = new URLSearchParams(location.hash.slice(1));
  const chosen = choices.find((each) => each.label === kept.get("nodes"));
  if (chosen ?? choices[0]) choose(chosen ?? choices[0], chosen && parseSizes(chosen, kept.get("sizes")));
}

function describe({ label, nodes, pools }) {
  return `${label} (${count(nodes, "node")}; ${pools.map((pool) => pool.name).join(", ")})`;
}

/** The sizes that a text names; null where it is none of these nodes. */
function parseSizes({ nodes, pools }, text) {
  const named = new Map((text ?? "").split(",").map((part) => part.split(":")));
  const found = pools.map((pool) => Number.parseInt(named.get(pool.name), 10));
  const rest = nodes - found.reduce((sum, size) => sum + size, 0);
  return found.every((size) => size >= 0) && rest >= 0 ? [...found, rest] : null;
}

function choose(choice, chosen = null) {
  shared = choice;
  select.selectedIndex = choices.indexOf(choice);
  const today = choice.pools.map((pool) => pool.nodes);
  const outside = choice.nodes - today.reduce((sum, size) => sum + size, 0);
  sizes = chosen ?? [...today, outside];
  const rows = choice.pools.map((pool) => `${pool.name} (${pool.schedule})`);
  // Nodes in no pool have a slider where there are such.
  const names = outside > 0 || sizes.at(-1) > 0 ? [...rows, "in no pool"] : rows;
  const legend = find("sizes").firstElementChild;
  find("sizes").replaceChildren(legend, ...names.map((name, index) => drawSlider(name, index, names.length)));
  show();
}

function drawSlider(name, index, number) {
  const slider = make("input", { type: "range", min: 0, max: shared.nodes, step: 1 });
  let before = null; // The split from which this slider is being moved.
  slider.addEventListener("input", () => {
    before ??= sizes;
    const moved = shift(before.slice(0, number), index, slider.valueAsNumber);
    sizes = [...moved, ...before.slice(number)];
    show();
  });
  slider.addEventListener("change", () => (before = null));
  return make("label", {}, name, make("span", { "aria-hidden": true }), slider);
}

/** Show the sizes at the sliders and in the address, and ask what runs on them. */
function show() {
  for (const [index, label] of [...find("sizes").querySelectorAll("label")].entries()) {
    const slider = label.querySelector("input");
    slider.value = sizes[index];
    slider.setAttribute("aria-valuetext", `${sizes[index]} of ${count(shared.nodes, "node")}`);
    label.querySelector("span").textContent = sizes[index];
  }
  const named = shared.pools.map((pool, index) => `${pool.name}:${sizes[index]}`);
  const query = new URLSearchParams({ nodes: shared.label, sizes: named.join(",") });
  history.replaceState(null, "", `#${query}`);
  ask(query);
}

/** Ask for this split, or for a later one as soon as the request under way is answered. */
async function ask(query) {
  wanted = query;
  if (asked) return;
  asked = true;
  find("answer").setAttribute("aria-busy", true);
  while (wanted !== null) {
    setText(find("progress"), "Computing …");
    const now = wanted;
    wanted = null;
    const told = await request(`?${now}`);
    if (told === null) continue;
    setText(find("progress"), `Computed for the cluster as it was at ${tellTime(told.takenAt)}`);
    const hasFocus = find("answer").contains(document.activeElement);
    const isOpen = find("answer").querySelector("details")?.open ?? false;
    find("answer").replaceChildren(...drawAnswer(told, shared, isOpen));
    if (hasFocus) find("answer").focus({ preventScroll: true });
  }
  find("answer").setAttribute("aria-busy", false);
  asked = false;
}

/** What the server answers; null where it refuses, which is shown. */
async function request(query) {
  try {
    const answer = await fetch(`split${query}`);
    if (!answer.ok) throw new Error(await answer.text());
    setText(find("refusal"), "");
    return await answer.json();
  } catch (error) {
    setText(find("refusal"), `✕ ${error.message}`);
    setText(find("progress"), "Not computed");
    return null;
  }
}
