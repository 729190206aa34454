// The page: what is told goes to the rows, what is chosen to the details.

import { drawDetails, hasDetails } from "./details.js";
import { classesOf, drawRow } from "./draw.js";
import { Feed } from "./feed.js";
import { fillFilters, readFilters, setChoices, writeFilters } from "./filters.js";
import { Grid } from "./grid.js";
import { setText, showFreshness, showHeader } from "./header.js";
import { count, listNamespaces, listPools, listRows } from "./rows.js";
import { tellTrouble } from "./use.js";

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
setInterval(() => showFreshness(feed), 1000);
feed.start();

function show() {
  showHeader(feed);
  showNotice();
  setText(find("use"), tellTrouble(feed.told?.use));
  if (feed.told === shown) return;
  shown = feed.told;
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
  // Where use is shown a card may have a line more.
  find("grid").classList.toggle("with-use", Boolean(feed.told.use));
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

function showNotice() {
  const { told } = feed;
  setText(
    find("notice"),
    told && !told.installed
      ? "⚠ The cluster has no GPUSharePools: the operator is not installed. These are its nodes with GPUs."
      : "",
  );
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
