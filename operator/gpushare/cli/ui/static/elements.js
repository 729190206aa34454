// Elements from values. Text is always text: what a cluster says can't become markup, nor stand in
// another order than it has.

// Those that commands escape too.
const CONTROLS = /[\p{Cc}\p{Cs}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;

/** An element; `properties` are attributes, and "class" its classes. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.map((child) => (child instanceof Node ? child : tame(child))));
  return element;
}

/** A line that is cut where there is no room, and shows itself whole under the pointer. */
export function line(text, classes = "") {
  return make("p", { class: classes || null, title: tame(text) }, text);
}

/** Text in which each control is seen, and does nothing. */
export function tame(text) {
  return String(text).replace(CONTROLS, (control) => {
    const code = control.charCodeAt(0);
    return code < 0x100 ? `\\x${hex(code, 2)}` : `\\u${hex(code, 4)}`;
  });
}

function hex(code, digits) {
  return code.toString(16).padStart(digits, "0");
}
