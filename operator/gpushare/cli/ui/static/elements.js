// Elements from values. Text is always text: what a cluster says can't become markup.

/** An element; `properties` are attributes, and "class" its classes. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** A line that is cut where there is no room, and shows itself whole under the pointer. */
export function line(text, classes = "") {
  return make("p", { class: classes || null, title: text }, text);
}
