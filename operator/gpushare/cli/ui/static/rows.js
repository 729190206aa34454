// Which rows there are: the pools with their nodes, the nodes in none, and the pods that wait.

/** A row for each thing that the filters leave, in order. */
export function listRows(feed, filters) {
  const { told } = feed;
  const isFiltered = filters.node || filters.namespace || filters.attention;
  const context = filters.namespace;
  const rows = [];
  for (const pool of told.pools) {
    if (filters.pool && filters.pool !== pool.name) continue;
    const every = feed.nodesOf(pool.name);
    const nodes = [...every.values()].filter((node) => isShown(node, filters));
    if (isFiltered && nodes.length === 0) continue;
    rows.push({ key: `pool ${pool.name}`, kind: "pool", item: pool, total: every.size, context: every.size });
    for (const node of nodes) {
      const key = `node ${node.name}`;
      rows.push({ key, kind: "node", item: node, pool, context: `${context} ${pool.unit} ${pool.schedule}` });
    }
  }
  for (const lost of filters.pool || isFiltered ? [] : told.unreadable) {
    rows.push({ key: `unreadable ${lost.name}`, kind: "unreadable", item: lost, context });
  }
  rows.push(...listOutside(feed, filters, context), ...listWaiting(told, filters, context));
  return rows;
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
  const nodes = [...feed.nodesOf("").values()].filter((node) => isShown(node, filters));
  if (filters.pool || nodes.length === 0) return [];
  const title = { title: "In no pool", text: count(nodes.length, "node") + " with GPUs" };
  return [
    { key: "title outside", kind: "title", item: title, context: title.text },
    ...nodes.map((node) => ({ key: `node ${node.name}`, kind: "node", item: node, pool: null, context })),
  ];
}

function listWaiting(told, filters, context) {
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
    ...pods.map((pod) => ({ key: `pod ${pod.namespace}/${pod.name}`, kind: "pod", item: pod, context })),
  ];
}

function isShown(node, filters) {
  return (
    node.name.includes(filters.node) &&
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
    node.cards.some(isOvercommitted)
  );
}

/** Whether pods hold more of a card than it has. */
export function isOvercommitted(card) {
  return card.total > 0 && card.allocated > card.total;
}

export function count(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}
