// What is shown: in the form, and in the address, so that a reload keeps it.

import { make } from "./elements.js";

/** The filters as the form has them; where it has not been filled yet, as the address has them. */
export function readFilters(form) {
  const { pool, node, namespace, attention } = form.elements;
  if (!form.dataset.filled) {
    form.dataset.filled = "yes";
    const asked = new URLSearchParams(location.hash.slice(1));
    node.value = asked.get("node") ?? "";
    attention.checked = asked.has("attention");
    for (const name of ["pool", "namespace"]) setChoices(form.elements[name], "all", [], asked.get(name) ?? "");
  }
  return {
    pool: pool.value,
    node: node.value.trim(),
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
  const before = [...select.options].map((option) => option.textContent).join("\n");
  if (before === [every, ...offered].join("\n")) return;
  select.replaceChildren(
    make("option", { value: "" }, every),
    ...offered.map((name) => make("option", { value: name }, name)),
  );
  select.value = chosen;
}
