// What is read, how old it is, and what is wrong with that: above each page.

import { tame } from "./elements.js";
import { tellAge, tellTime } from "./words.js";

const find = (id) => document.getElementById(id);

/** What the feed tells of itself. */
export function showHeader(feed) {
  showFreshness(feed);
  if (feed.told) setText(find("source"), feed.told.source);
  showTroubles(feed);
}

/** How old the data is; to be called each second. */
export function showFreshness({ told, answeredAt, heardAt }) {
  if (!told) return;
  const age = (answeredAt - new Date(told.takenAt) + performance.now() - heardAt) / 1000;
  find("freshness").textContent = told.live
    ? `read ${tellAge(age)} ago, at ${tellTime(told.takenAt)}${told.use?.readAt ? `; use at ${tellTime(told.use.readAt)}` : ""}`
    : `taken at ${new Date(told.takenAt).toLocaleString()}`;
}

function showTroubles({ told, silence }) {
  const read = told ? `The data shown is from ${tellTime(told.takenAt)}.` : "";
  let trouble = "";
  if (silence) {
    trouble = `✕ The program behind this page has not answered since ${tellTime(silence.since)} (${silence.why}): it has stopped or is overloaded. ${read}`;
  } else if (told?.problem) {
    trouble = `✕ Not read since ${tellTime(told.problem.since)}: ${told.problem.message}. ${read}`;
  }
  setText(find("problem"), trouble);
}

/** Show this text, or nothing where it is empty. */
export function setText(element, said) {
  const text = tame(said);
  if (element.textContent !== text) element.textContent = text;
  element.hidden = text === "";
}
