// What is said of a node, in the words of `inspect --pools -o json`. A sign stands beside each
// colour, so that no colour is needed to tell them apart.

const SIGNS = { ready: "✓", updating: "↻", waiting: "…", blocked: "■", failed: "✕" };

/** Where a node is: {text, why, classes}. */
export function describeState(node) {
  if (node.state === undefined || node.state === "ready") return describeReady(node);
  return {
    text: `${SIGNS[node.state] ?? "?"} ${node.state}: ${node.reason}`,
    why: node.change ? `${describeChange(node.change)}: ${node.message}` : node.message,
    classes: node.state,
  };
}

function describeReady(node) {
  if (node.state === undefined && node.reason) return describeOther(node);
  if (node.takesPods) {
    const isMember = node.state === "ready";
    return { text: isMember ? "✓ ready" : "✓ takes pods", why: "", classes: "ready" };
  }
  return { text: "⊘ takes no pods", why: tellAway(node), classes: "away" };
}

/** A node in no pool whose cards another stack gives out; two stacks are an error. */
function describeOther(node) {
  const [sign, classes] = node.reason === "CompetingStacks" ? ["■", "blocked"] : ["⊘", "away"];
  return { text: `${sign} ${node.reason}`, why: node.message, classes };
}

/** Why a node takes no pods. */
export function tellAway(node) {
  const taints = node.untoleratedTaints ?? [];
  if (taints.length > 0 && !node.cordoned) return `taint ${taints.join(", ")}`;
  return node.cordoned ? "cordoned" : "kubelet not Ready";
}

/** A change under way, in short. */
export function describeChange(change) {
  return `${change.from} → ${change.to}, ${change.failed ? "failed at " : ""}${change.phase}`;
}

/** The mode that a node is in, and the one that it should be in. */
export function describeMode(node, pool) {
  if (!pool) return "in no pool";
  const mode = node.modeByLabels ?? "no mode";
  return mode === pool.schedule ? mode : `${mode}, pool wants ${pool.schedule}`;
}

/** Whether containers have the isolation that the labels promise: {text, why, classes}. */
export function describeIsolation(isolation) {
  if (!isolation || isolation.containers === 0) {
    return { text: "–", why: "nothing shared", classes: "soft" };
  }
  const { containers, stale, unknown, isolated, optedOut } = isolation;
  if (stale > 0) return { text: "⚠ stale", why: `${stale} of ${containers} containers`, classes: "stale" };
  if (unknown > 0) return { text: "? unknown", why: `${unknown} of ${containers} containers`, classes: "unknown" };
  const opted = optedOut ? `, ${optedOut} opted out` : "";
  return { text: "✓ as labelled", why: `${isolated} of ${containers} isolated${opted}`, classes: "kept" };
}

/** The GPU memory that a pod asks for, of all its cards together. */
export function describeRequest(pod, unit) {
  return pod.requested ? `${pod.requested} ${unit}` : "no GPU memory";
}

/** A card in a sentence, for who can't see its bar; `uses` tells of its pods' use, "" of nothing. */
export function describeCard(card, unit, used = "", tellUse = () => "") {
  const held = Object.entries(card.held).map(([pod, units]) => `${pod} ${units}${units ? tellUse(pod) : ""}`);
  const total = card.total ? `${card.allocated} of ${card.total} ${unit}` : `${card.allocated} ${unit} of a card that is not offered`;
  const over = card.overcommitted ? ", more than it has" : "";
  return `GPU ${card.index}: ${total} allocated${over}${used && `, ${used}`}${held.length ? `: ${held.join(", ")}` : ""}`;
}

/** A time of day, with its date where that is another day's. */
export function tellTime(text) {
  const moment = new Date(text);
  const isToday = moment.toDateString() === new Date().toDateString();
  return isToday ? moment.toLocaleTimeString() : moment.toLocaleString();
}

/** How long something takes or took, roughly. */
export function tellAge(seconds) {
  if (seconds < 100) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 6000) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
}
