// The page: what is told goes to the rows, what is chosen to the details.

import { drawDetails, hasDetails } from "./details.js";
import { classesOf, drawRow } from "./draw.js";
import { tame } from "./elements.js";
import { Feed } from "./feed.js";
import { fillFilters, readFilters, setChoices, writeFilters } from "./filters.js";
import { Grid } from "./grid.js";
import { count, listNamespaces, listPools, listRows } from "./rows.js";
import { tellAge, tellTime } from "./words.js";

const find = (id) => document.getElementById(id);
const form = find("filters");
fillFilters(form);
let filters = readFilters(form);
let chosen = null;
let detailed = null; // What the row said that the panel tells of.
let shown = null; // The document that the rows are of.

const feed = new Feed(show);
const grid = new Grid({
  grid: find("grid"),
  view: find("view"),
  sheet: find("rows"),
  draw: drawRow,
  classesOf,
  onOpen: openDetails,
});

form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("input", () => {
  filters = readFilters(form);
  writeFilters(filters);
  showRows();
});
window.addEventListener("hashchange", () => {
  fillFilters(form);
  filters = readFilters(form);
  showChoices();
  showRows();
});
find("close").addEventListener("click", () => closeDetails());
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && chosen !== null) closeDetails();
  if (event.key === "/" && !event.target.closest("input, select")) {
    event.preventDefault();
    form.elements.node.focus();
  }
});
setInterval(showFreshness, 1000);
feed.start();

function show() {
  showFreshness();
  showTroubles();
  if (feed.told === shown) return;
  shown = feed.told;
  setText(find("source"), shown.source);
  document.title = `${find("source").textContent} · GPU pools`;
  showChoices();
  showRows();
}

function showChoices() {
  if (!feed.told) return;
  setChoices(form.elements.pool, "all pools", listPools(feed.told), filters.pool);
  setChoices(form.elements.namespace, "all namespaces", listNamespaces(feed.told), filters.namespace);
}

function showRows() {
  if (!feed.told) return;
  const rows = listRows(feed.told, filters);
  grid.setRows(rows);
  find("count").textContent = count(rows.filter((row) => row.kind === "node").length, "node");
  const empty = find("empty");
  empty.hidden = rows.length > 0;
  empty.textContent = isFiltered() ? "Nothing matches the filters." : "No pools and no nodes with GPUs found.";
  showDetails();
}

function isFiltered() {
  return Boolean(filters.pool || filters.node || filters.namespace || filters.attention);
}

function showFreshness() {
  const { told } = feed;
  if (!told) return;
  const age = (feed.answeredAt - new Date(told.takenAt) + performance.now() - feed.heardAt) / 1000;
  find("freshness").textContent = told.live
    ? `read ${tellAge(age)} ago, at ${tellTime(told.takenAt)}`
    : `taken at ${new Date(told.takenAt).toLocaleString()}`;
}

function showTroubles() {
  const { told, silence } = feed;
  const read = told ? `The data shown is from ${tellTime(told.takenAt)}.` : "";
  let trouble = "";
  if (silence) {
    trouble = `✕ The program behind this page has not answered since ${tellTime(silence.since)} (${silence.why}): it has stopped or is overloaded. ${read}`;
  } else if (told?.problem) {
    trouble = `✕ Not read since ${tellTime(told.problem.since)}: ${told.problem.message}. ${read}`;
  }
  setText(find("problem"), trouble);
  setText(
    find("notice"),
    told && !told.installed
      ? "⚠ The cluster has no GPUSharePools: the operator is not installed. These are its nodes with GPUs."
      : "",
  );
}

function setText(element, said) {
  const text = tame(said);
  if (element.textContent !== text) element.textContent = text;
  element.hidden = text === "";
}

function openDetails(row, byKeyboard) {
  if (!hasDetails(row)) return;
  chosen = row.key;
  grid.choose(chosen);
  showDetails();
  if (byKeyboard) find("details-title").focus();
}

function showDetails() {
  const row = chosen === null ? undefined : grid.find(chosen);
  const panel = find("details");
  panel.hidden = row === undefined;
  if (row === undefined) return;
  // What stays the same may be selected, or be read aloud.
  const said = JSON.stringify(row);
  if (said === detailed) return;
  detailed = said;
  const hadFocus = document.activeElement === find("details-title");
  find("details-body").replaceChildren(...drawDetails(row));
  if (hadFocus) find("details-title").focus();
}

function closeDetails() {
  const hadFocus = find("details").contains(document.activeElement);
  chosen = null;
  grid.choose(null);
  find("details").hidden = true;
  if (hadFocus) grid.focusActive();
}
