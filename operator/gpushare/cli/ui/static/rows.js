// Which rows there are: the pools with their nodes, the nodes in none, and the pods that wait.

/**
 * A row for each thing that the filters leave, in order.
 *
 * A row is drawn anew where its `item` is another object, or its `context` another text: that holds
 * what else the drawing rests on.
 */
export function listRows(feed, filters) {
  const { told } = feed;
  const isFiltered = filters.node || filters.namespace || filters.attention;
  const context = `${filters.namespace} ${told.unit}`;
  const rows = [];
  for (const pool of told.pools) {
    if (filters.pool && filters.pool !== pool.name) continue;
    const every = feed.nodesOf(pool.name);
    const nodes = [...every.values()].filter((node) => isShown(node, filters));
    if (isFiltered && nodes.length === 0) continue;
    rows.push({ key: `pool ${pool.name}`, kind: "pool", item: pool, total: every.size, context: `${every.size}` });
    const { unit, schedule } = pool;
    const within = `${context} ${unit} ${schedule}`;
    for (const node of nodes) {
      rows.push({ key: `node ${node.name}`, kind: "node", item: node, pool, unit, context: within });
    }
  }
  for (const lost of filters.node || filters.namespace ? [] : told.unreadable) {
    if (filters.pool && filters.pool !== lost.name) continue;
    rows.push({ key: `unreadable ${lost.name}`, kind: "unreadable", item: lost, context });
  }
  rows.push(...listOutside(feed, filters, context), ...listWaiting(told, filters, context));
  return rows;
}

/** All pools, also those that can't be read. */
export function listPools(told) {
  return [...told.pools, ...told.unreadable].map((pool) => pool.name);
}

/** All namespaces that pods on cards or pods that wait are in. */
export function listNamespaces(feed) {
  const found = new Set(feed.told.waiting.map((pod) => pod.namespace));
  for (const pool of [...feed.told.pools.map((each) => each.name), ""]) {
    for (const node of feed.nodesOf(pool).values()) {
      for (const card of node.cards) for (const pod of card.pods) found.add(namespaceOf(pod));
    }
  }
  return [...found].sort();
}

export function namespaceOf(pod) {
  return pod.slice(0, pod.indexOf("/"));
}

function listOutside(feed, filters, context) {
  const { unit } = feed.told;
  const nodes = [...feed.nodesOf("").values()].filter((node) => isShown(node, filters));
  if (filters.pool || nodes.length === 0) return [];
  const title = { title: "In no pool", text: count(nodes.length, "node") + " with GPUs" };
  return [
    { key: "title outside", kind: "title", item: title, context: title.text },
    ...nodes.map((node) => ({ key: `node ${node.name}`, kind: "node", item: node, pool: null, unit, context })),
  ];
}

function listWaiting(told, filters, context) {
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
    { key: "title waiting", kind: "title", item: title, context: title.text },
    ...pods.map((pod) => ({ key: `pod ${pod.namespace}/${pod.name}`, kind: "pod", item: pod, unit, context })),
  ];
}

function isShown(node, filters) {
  return (
    node.name.toLowerCase().includes(filters.node) &&
    (!filters.namespace ||
      node.cards.some((card) => card.pods.some((pod) => namespaceOf(pod) === filters.namespace))) &&
    (!filters.attention || needsAttention(node))
  );
}

function needsAttention(node) {
  return (
    !node.takesPods ||
    (node.state !== undefined && node.state !== "ready") ||
    (node.isolation?.stale ?? 0) > 0 ||
    node.cards.some((card) => card.overcommitted)
  );
}

export function count(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}
