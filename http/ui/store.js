// Conversations and preferences in this browser (localStorage). What is read back is checked: another program or an
// older page may have written it. The key is never stored here.

const CONVERSATIONS = "weft-conversations", PREFERENCES = "weft-preferences";
const KEPT = 100; // conversations
const TRANSIENT = new Set(["tokens", "error"]); // of messages, for this visit

function read(name, absent) {
  try {
    return JSON.parse(localStorage.getItem(name)) ?? absent;
  } catch {
    return absent;
  }
}

function write(name, value) {
  try {
    localStorage.setItem(name, JSON.stringify(value, (field, each) => (TRANSIENT.has(field) ? undefined : each)));
    return true;
  } catch {
    return false; // full, or not allowed: the page goes on without
  }
}

const text = (value) => (typeof value === "string" ? value : "");

function message(value) {
  if (!value || !["user", "assistant", "tool"].includes(value.role)) return null;
  const out = {role: value.role, content: text(value.content)};
  for (const name of ["reasoning", "note", "tool_call_id", "name"]) if (value[name]) out[name] = text(value[name]);
  if (Array.isArray(value.calls)) {
    out.calls = value.calls.map((call) => ({id: text(call?.id), name: text(call?.name), arguments: text(call?.arguments)}));
  }
  return out;
}

function conversation(value) {
  if (!value || typeof value.id !== "string" || !Array.isArray(value.messages)) return null;
  const settings = Object.fromEntries(Object.entries(value.settings || {})
    .filter(([, each]) => typeof each === "string" || typeof each === "boolean"));
  return {id: value.id, title: text(value.title), model: text(value.model), settings,
    updated: Number(value.updated) || 0, messages: value.messages.map(message).filter(Boolean)};
}

export function conversationsRead() {
  const all = read(CONVERSATIONS, []);
  return Array.isArray(all) ? all.map(conversation).filter(Boolean) : [];
}

// The newest are kept where all together are too many or too large.
export function conversationsWrite(all) {
  let kept = all.filter((each) => each.messages.length > 0)
    .sort((a, b) => b.updated - a.updated).slice(0, KEPT);
  while (!write(CONVERSATIONS, kept) && kept.length > 1) kept = kept.slice(0, Math.ceil(kept.length / 2));
}

export function conversationNew(settings, model) {
  return {id: crypto.randomUUID ? crypto.randomUUID() : String(Date.now() + Math.random()), title: "", model,
    settings: {...settings}, updated: Date.now(), messages: []};
}

export function preference(name, value) {
  const kept = read(PREFERENCES, {});
  const all = kept && typeof kept === "object" ? kept : {};
  if (value === undefined) return typeof all[name] === "string" ? all[name] : "";
  all[name] = value;
  write(PREFERENCES, all);
  return value;
}
