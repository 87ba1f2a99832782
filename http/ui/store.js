// SPDX-License-Identifier: Apache-2.0
// Conversations and preferences in this browser (localStorage). Each conversation has its own entry, so tabs do not
// overwrite each other's. Everything that is read is checked, because another program or an older page may have written
// it. The API key is never stored here.

const CONVERSATION = "weft-conversation-", PREFERENCES = "weft-preferences";
const OLDER = "weft-conversations"; // list written by an older version of the page
const TRANSIENT = new Set(["tokens"]); // members of messages that are not stored
const SWITCHES = new Set(["tools_on", "schema_on", "logprobs"]); // settings that are booleans; the others are text
const FULL = "This browser's storage is full: new messages are lost when the page is closed. Delete conversations to free space.";
const REFUSED = "This browser stores nothing for this page: conversations are lost when it is closed.";

function read(name, absent) {
  try {
    return JSON.parse(localStorage.getItem(name)) ?? absent;
  } catch {
    return absent;
  }
}

// Returns the reason if it could not be written.
function write(name, value) {
  try {
    localStorage.setItem(name, JSON.stringify(value, (field, each) => (TRANSIENT.has(field) ? undefined : each)));
    return "";
  } catch (error) {
    return error.name === "QuotaExceededError" ? FULL : REFUSED;
  }
}

function drop(name) {
  try { localStorage.removeItem(name); } catch { /* no storage */ }
}

function names() {
  try {
    return Object.keys(localStorage).filter((name) => name.startsWith(CONVERSATION));
  } catch {
    return [];
  }
}

const text = (value) => (typeof value === "string" ? value : "");
const nameOf = (conversation) => CONVERSATION + conversation.id;

function messageChecked(value) {
  if (!value || !["user", "assistant", "tool"].includes(value.role)) return null;
  const out = {role: value.role, content: text(value.content)};
  for (const name of ["reasoning", "note", "error", "tool_call_id", "name"]) if (value[name]) out[name] = text(value[name]);
  if (Array.isArray(value.calls)) {
    out.calls = value.calls.map((call) => ({id: text(call?.id), name: text(call?.name), arguments: text(call?.arguments)}));
  }
  return out;
}

function conversationChecked(value) {
  if (!value || typeof value.id !== "string" || !Array.isArray(value.messages)) return null;
  const settings = Object.fromEntries(Object.entries(value.settings || {})
    .filter(([name, each]) => typeof each === (SWITCHES.has(name) ? "boolean" : "string")));
  return {id: value.id, title: text(value.title), model: text(value.model), settings,
    updated: Number(value.updated) || 0, messages: value.messages.map(messageChecked).filter(Boolean)};
}

function conversationRead(name) {
  const found = conversationChecked(read(name, null));
  return found && nameOf(found) === name ? found : null;
}

// Moves each conversation of the older list to its own entry; returns those that do not fit and stay there.
function olderMove(removed) {
  const older = read(OLDER, []);
  const all = Array.isArray(older) ? older.map(conversationChecked).filter((each) => each && each.id !== removed?.id) : [];
  drop(OLDER);
  const left = all.filter((each) => !conversationRead(nameOf(each)) && write(nameOf(each), each));
  if (left.length) write(OLDER, left);
  return left;
}

export function conversationsRead() {
  return [...olderMove(), ...names().map(conversationRead)].filter(Boolean).sort((a, b) => b.updated - a.updated);
}

const unkept = new Set(); // conversations that did not fit into the storage yet
let faultSay = () => {};
export function onUnkept(callback) { faultSay = callback; }

function keep() {
  let fault = "";
  for (const each of unkept) {
    const why = write(nameOf(each), each);
    if (why) fault = why;
    else unkept.delete(each);
  }
  faultSay(fault);
}

export function conversationKeep(one) {
  if (!one.messages.length) return;
  unkept.add(one);
  keep();
}

// Forgets a conversation that another tab removed: it is not written again.
export function conversationForget(one) {
  unkept.delete(one);
}

export function conversationRemove(one) {
  conversationForget(one);
  drop(nameOf(one));
  olderMove(one);
  keep();
}

// Calls back with the id of a conversation that another tab stored or removed, and the conversation or null.
export function onElsewhere(callback) {
  addEventListener("storage", ({key}) => {
    if (key?.startsWith(CONVERSATION)) callback(key.slice(CONVERSATION.length), conversationRead(key));
  });
}

export const idNew = () => (crypto.randomUUID ? crypto.randomUUID() : String(Date.now() + Math.random()));

export function conversationNew(settings, model) {
  return {id: idNew(), title: "", model, settings: {...settings}, updated: Date.now(), messages: []};
}

export function preference(name, value) {
  const kept = read(PREFERENCES, {});
  const all = kept && typeof kept === "object" ? kept : {};
  if (value === undefined) return typeof all[name] === "string" ? all[name] : "";
  all[name] = value;
  write(PREFERENCES, all);
  return value;
}
