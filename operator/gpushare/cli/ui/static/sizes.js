// Sizes of pools over the same nodes: what one gains the others lose.

/** The sizes once the one at `index` is `size`: the next ones give what it gains, or get what it
 * loses, in their order. */
export function shift(sizes, index, size) {
  const moved = [...sizes];
  let owed = size - sizes[index];
  for (let step = 1; step < sizes.length && owed !== 0; step++) {
    const other = (index + step) % sizes.length;
    const given = Math.min(owed, moved[other]);
    moved[other] -= given;
    owed -= given;
  }
  moved[index] = size - owed;
  return moved;
}
