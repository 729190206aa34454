// Which rows there are: the pools with their nodes, the nodes in none, and the pods that wait.

import { groupUse } from "./use.js";

/** A row for each thing that the filters leave, in order; it has all that its drawing rests on. */
export function listRows(told, filters) {
  const isFiltered = filters.node || filters.namespace || filters.attention;
  const uses = groupUse(told);
  const rows = [];
  for (const { nodes: every, ...pool } of told.pools) {
    if (filters.pool && filters.pool !== pool.name) continue;
    const nodes = every.filter((node) => isShown(node, filters, uses));
    if (isFiltered && nodes.length === 0) continue;
    rows.push({ key: `pool ${pool.name}`, kind: "pool", item: pool, total: every.length });
    const { name, schedule, unit } = pool;
    for (const node of nodes) rows.push(buildNode(node, { name, schedule }, unit, filters, uses));
  }
  for (const lost of filters.node || filters.namespace ? [] : told.unreadable) {
    if (filters.pool && filters.pool !== lost.name) continue;
    rows.push({ key: `unreadable ${lost.name}`, kind: "unreadable", item: lost });
  }
  rows.push(...listOutside(told, filters, uses), ...listWaiting(told, filters));
  return rows;
}

/** All pools, also those that can't be read. */
export function listPools(told) {
  return [...told.pools, ...told.unreadable].map((pool) => pool.name);
}

/** All namespaces that pods on cards or pods that wait are in. */
export function listNamespaces(told) {
  const nodes = [...told.pools.flatMap((pool) => pool.nodes), ...told.outside];
  const held = nodes.flatMap((node) => node.cards).flatMap((card) => card.pods);
  return [...new Set([...told.waiting.map((pod) => pod.namespace), ...held.map(namespaceOf)])].sort();
}

export function namespaceOf(pod) {
  return pod.slice(0, pod.indexOf("/"));
}

function buildNode(node, pool, unit, filters, uses) {
  const use = findUse(node, uses);
  return { key: `node ${node.name}`, kind: "node", item: node, pool, unit, namespace: filters.namespace, use };
}

/** What each pod of a node uses, by namespace and name; null where nothing is told of that. */
function findUse(node, uses) {
  return uses && (uses.get(node.name) ?? {});
}

function listOutside(told, filters, uses) {
  const nodes = told.outside.filter((node) => isShown(node, filters, uses));
  if (filters.pool || nodes.length === 0) return [];
  const title = { title: "In no pool", text: count(nodes.length, "node") + " with GPUs" };
  return [
    { key: "title outside", kind: "title", item: title },
    ...nodes.map((node) => buildNode(node, null, told.unit, filters, uses)),
  ];
}

function listWaiting(told, filters) {
  const { unit } = told;
  const pods = told.waiting.filter(
    (pod) =>
      !filters.node &&
      (!filters.pool || pod.pools.includes(filters.pool)) &&
      (!filters.namespace || pod.namespace === filters.namespace),
  );
  if (pods.length === 0) return [];
  const title = { title: "Pods that wait", text: `${count(pods.length, "pod")} without a pool or a node` };
  return [
    { key: "title waiting", kind: "title", item: title },
    ...pods.map((pod) => ({ key: `pod ${pod.namespace}/${pod.name}`, kind: "pod", item: pod, unit })),
  ];
}

function isShown(node, filters, uses) {
  return (
    node.name.toLowerCase().includes(filters.node) &&
    (!filters.namespace ||
      node.cards.some((card) => card.pods.some((pod) => namespaceOf(pod) === filters.namespace))) &&
    (!filters.attention || needsAttention(node, findUse(node, uses)))
  );
}

function needsAttention(node, use) {
  return (
    !node.takesPods ||
    (node.state !== undefined && node.state !== "ready") ||
    node.reason === "CompetingStacks" ||
    (node.isolation?.stale ?? 0) > 0 ||
    node.cards.some((card) => card.overcommitted) ||
    Object.values(use ?? {}).some((each) => each.beyond)
  );
}

export function count(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}
