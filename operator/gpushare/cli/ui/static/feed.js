// The state of the pools, asked for again and again; of what is known only the changes are told.

const PERIOD_MS = 2000;
const PATIENCE_MS = 15000;

export class Feed {
  #nodes = new Map(); // By pool, under "" those in none: a Map of nodes by name.
  #onChange;
  #timer = 0;
  #asking = false;

  /** The answer that was taken in last, its pools without their nodes; null before the first. */
  told = null;
  /** Since when the program does not answer: {since, why}; null while it does. */
  silence = null;
  /** When `told` came, by performance.now(). */
  heardAt = 0;

  constructor(onChange) {
    this.#onChange = onChange;
  }

  start() {
    document.addEventListener("visibilitychange", () => this.#ask());
    this.#ask();
  }

  /** The nodes of a pool, by name. */
  nodesOf(pool) {
    return this.#nodes.get(pool) ?? new Map();
  }

  async #ask() {
    clearTimeout(this.#timer);
    if (document.hidden || this.#asking) return;
    this.#asking = true;
    const known = this.told ? `?epoch=${this.told.epoch}&since=${this.told.version}` : "";
    try {
      const answer = await fetch(`state${known}`, { signal: AbortSignal.timeout(PATIENCE_MS) });
      if (!answer.ok) throw new Error(`it answers ${answer.status}`);
      this.#take(await answer.json());
    } catch (error) {
      this.silence ??= { since: new Date(), why: error.message };
    }
    this.#asking = false;
    this.#onChange();
    if (this.told?.live !== false || this.silence) {
      this.#timer = setTimeout(() => this.#ask(), PERIOD_MS);
    }
  }

  #take(told) {
    const before = told.whole ? new Map() : this.#nodes;
    // Names are whatever a cluster has: "constructor" is no property of ours.
    const gone = new Map(Object.entries(told.gone ?? {}));
    const groups = [...told.pools.map((pool) => [pool.name, pool.nodes]), ["", told.outside]];
    this.#nodes = new Map(
      groups.map(([pool, changed]) => [
        pool,
        merge(before.get(pool) ?? new Map(), changed, gone.get(pool) ?? []),
      ]),
    );
    const pools = told.pools.map(({ nodes, ...pool }) => pool);
    this.told = { ...told, pools, waiting: told.waiting ?? this.told.waiting };
    this.silence = null;
    this.heardAt = performance.now();
  }
}

function merge(known, changed, gone) {
  if (changed.length === 0 && gone.length === 0) return known;
  const nodes = new Map(known);
  for (const name of gone) nodes.delete(name);
  for (const node of changed) nodes.set(node.name, node);
  if (nodes.size === known.size && gone.length === 0) return nodes;
  return new Map([...nodes].sort(([a], [b]) => (a < b ? -1 : 1)));
}
