// Rows of one height of which only those in view are there, with one of them in the tab order.

import { make } from "./elements.js";

const SPARE = 4; // Rows drawn above and below the view.

export class Grid {
  #grid;
  #view;
  #sheet;
  #draw;
  #classesOf;
  #onOpen;
  #rows = [];
  #places = new Map(); // Of rows, by key.
  #drawn = new Map(); // By key: the element, and what the row said as it was drawn.
  #active = null; // Key of the row that has the focus, or would get it.
  #chosen = null; // Key of the row whose details are shown.

  constructor({ grid, view, sheet, draw, classesOf, onOpen }) {
    this.#grid = grid;
    this.#view = view;
    this.#sheet = sheet;
    this.#draw = draw;
    this.#classesOf = classesOf;
    this.#onOpen = onOpen;
    view.addEventListener("scroll", () => this.render(), { passive: true });
    new ResizeObserver(() => this.render()).observe(view);
    sheet.addEventListener("keydown", (event) => this.#onKey(event));
    sheet.addEventListener("focusin", (event) => this.#activate(keyOf(event.target)));
    sheet.addEventListener("click", (event) => this.#open(keyOf(event.target)));
  }

  /** Show these rows; the focus stays on the row that has it, wherever that is now. */
  setRows(rows) {
    const place = this.#places.get(this.#active) ?? 0;
    this.#rows = rows;
    this.#places = new Map(rows.map((row, index) => [row.key, index]));
    if (!this.#places.has(this.#active)) {
      const hadFocus = this.#drawn.get(this.#active)?.element.contains(document.activeElement);
      this.#active = rows[Math.min(place, rows.length - 1)]?.key ?? null;
      this.render();
      if (hadFocus) this.#focus();
      return;
    }
    this.render();
  }

  /** Mark the row whose details are shown; null: none. */
  choose(key) {
    this.#chosen = key;
    this.render();
  }

  /** The row with this key, if the filters leave it. */
  find(key) {
    return this.#rows[this.#places.get(key)];
  }

  focusActive() {
    this.#reveal(this.#places.get(this.#active) ?? 0);
    this.#focus();
  }

  render() {
    const height = this.#rowHeight;
    this.#sheet.style.height = `${this.#rows.length * height}px`;
    this.#grid.setAttribute("aria-rowcount", this.#rows.length + 1);
    const first = Math.max(0, Math.floor(this.#view.scrollTop / height) - SPARE);
    const last = Math.ceil((this.#view.scrollTop + this.#view.clientHeight) / height) + SPARE;
    const shown = new Set(this.#rows.slice(first, last).map((row) => row.key));
    // Scrolled out of view it keeps the focus, and the keys that come go on from there.
    if (this.#active !== null) shown.add(this.#active);
    for (const [key, { element }] of this.#drawn) {
      if (!shown.has(key)) {
        element.remove();
        this.#drawn.delete(key);
      }
    }
    const places = [...shown].map((key) => this.#places.get(key)).sort((a, b) => a - b);
    let next = this.#sheet.firstChild;
    for (const place of places) {
      const element = this.#renderRow(place, height);
      if (element === next) next = next.nextSibling;
      else this.#insert(element, next);
    }
  }

  #renderRow(place, height) {
    const row = this.#rows[place];
    const drawn = this.#drawn.get(row.key);
    const element = drawn?.element ?? make("div", { role: "row", "data-key": row.key });
    const said = JSON.stringify(row);
    if (drawn?.said !== said) {
      element.replaceChildren(...this.#draw(row));
      this.#drawn.set(row.key, { element, said });
    }
    const isChosen = row.key === this.#chosen;
    element.className = this.#classesOf(row) + (isChosen ? " chosen" : "");
    element.setAttribute("aria-rowindex", place + 2);
    element.setAttribute("aria-selected", isChosen);
    element.tabIndex = row.key === this.#active ? 0 : -1;
    element.style.transform = `translateY(${place * height}px)`;
    return element;
  }

  /** In the order in which it is read; an element that is moved loses the focus. */
  #insert(element, next) {
    const hadFocus = element === document.activeElement;
    this.#sheet.insertBefore(element, next);
    if (hadFocus) element.focus({ preventScroll: true });
  }

  get #rowHeight() {
    return parseFloat(getComputedStyle(this.#grid).getPropertyValue("--row"));
  }

  #onKey(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const page = Math.max(1, Math.floor(this.#view.clientHeight / this.#rowHeight) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in steps) this.#move(steps[event.key]);
    else if (event.key === "Enter" || event.key === " ") this.#open(this.#active, true);
    else return;
    event.preventDefault();
  }

  #move(step) {
    const place = (this.#places.get(this.#active) ?? 0) + step;
    const target = Math.min(Math.max(place, 0), this.#rows.length - 1);
    this.#reveal(target);
    this.#activate(this.#rows[target].key);
    this.#focus();
  }

  #reveal(place) {
    const height = this.#rowHeight;
    const top = place * height;
    const { scrollTop, clientHeight } = this.#view;
    if (top < scrollTop) this.#view.scrollTop = top;
    else if (top + height > scrollTop + clientHeight) this.#view.scrollTop = top + height - clientHeight;
  }

  #activate(key) {
    if (key === null || key === this.#active) return;
    this.#active = key;
    this.render();
  }

  #focus() {
    this.#drawn.get(this.#active)?.element.focus({ preventScroll: true });
  }

  #open(key, byKeyboard = false) {
    const row = this.find(key);
    if (row) this.#onOpen(row, byKeyboard);
  }
}

function keyOf(target) {
  return target.closest("[role=row]")?.dataset.key ?? null;
}
