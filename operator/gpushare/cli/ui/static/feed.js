// The state of the pools, asked for again and again.

const PERIOD_MS = 2000;
const PATIENCE_MS = 15000;

export class Feed {
  #onChange;
  #timer = 0;
  #asking = false;
  #etag = null;

  /** The document that was told last; null before the first. */
  told = null;
  /** Since when the program does not answer: {since, why}; null while it does. */
  silence = null;
  /** When it answered last, by its own clock, and by performance.now(). */
  answeredAt = null;
  heardAt = 0;

  constructor(onChange) {
    this.#onChange = onChange;
  }

  start() {
    document.addEventListener("visibilitychange", () => this.#ask());
    this.#ask();
  }

  async #ask() {
    clearTimeout(this.#timer);
    if (document.hidden || this.#asking) return;
    this.#asking = true;
    try {
      await this.#take();
      this.silence = null;
    } catch (error) {
      this.silence ??= { since: new Date(), why: error.message };
    }
    this.#asking = false;
    this.#onChange();
    if (!this.#isComplete() || this.silence) {
      this.#timer = setTimeout(() => this.#ask(), PERIOD_MS);
    }
  }

  /** Whether nothing more can come: a snapshot never changes, but what its pods used may be read yet. */
  #isComplete() {
    const { told } = this;
    return told?.live === false && (!told.use || told.use.readAt !== null);
  }

  async #take() {
    const headers = this.#etag ? { "If-None-Match": this.#etag } : {};
    const answer = await fetch("state", { headers, signal: AbortSignal.timeout(PATIENCE_MS) });
    if (answer.status !== 304) {
      if (!answer.ok) throw new Error(`HTTP status ${answer.status}`);
      this.told = await answer.json();
      this.#etag = answer.headers.get("ETag");
    }
    this.answeredAt = new Date(answer.headers.get("Date"));
    this.heardAt = performance.now();
  }
}
