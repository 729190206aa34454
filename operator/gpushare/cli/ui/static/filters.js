// What is shown: in the form, and in the address, so that a reload keeps it.

import { make } from "./elements.js";

/** Fill the form as the address says; what it names is a choice, whether there is such or not. */
export function fillFilters(form) {
  const { pool, node, namespace, attention } = form.elements;
  const asked = new URLSearchParams(location.hash.slice(1));
  node.value = asked.get("node") ?? "";
  attention.checked = asked.has("attention");
  setChoices(pool, "all pools", [], asked.get("pool") ?? "");
  setChoices(namespace, "all namespaces", [], asked.get("namespace") ?? "");
}

/** The filters as the form has them. */
export function readFilters(form) {
  const { pool, node, namespace, attention } = form.elements;
  return {
    pool: pool.value,
    node: node.value.trim().toLowerCase(),
    namespace: namespace.value,
    attention: attention.checked,
  };
}

/** Keep them in the address. */
export function writeFilters(filters) {
  const kept = Object.entries(filters).filter(([, value]) => value);
  history.replaceState(null, "", `#${new URLSearchParams(kept)}`);
}

/** Let `select` offer these names, and the chosen one even where it is none of them any more. */
export function setChoices(select, every, names, chosen) {
  const offered = chosen && !names.includes(chosen) ? [...names, chosen] : names;
  const before = [...select.options].map((option) => option.value).join("\n");
  if (before === ["", ...offered].join("\n")) return;
  select.replaceChildren(
    make("option", { value: "" }, every),
    ...offered.map((name) => make("option", { value: name }, name)),
  );
  select.value = chosen;
}
