// SPDX-License-Identifier: Apache-2.0
// Calls the server like any client. The key is kept in this tab's session storage only.

const KEY = "weft-key";

// If the browser forbids storage, the key is kept until the page is closed.
function sessionDo(what) {
  try { return what(sessionStorage); } catch { return null; }
}
let held = sessionDo((session) => session.getItem(KEY)) || "";

const UNSENT = /[^!-~]/u; // characters that no key has, because a header cannot contain them

export const key = {
  fault: (text) => { const found = UNSENT.exec(text); return found ? `No key has the character “${found[0]}”: is this really a key?` : ""; },
  get: () => (key.fault(held) ? "" : held),
  set: (value) => { held = value; sessionDo((session) => session.setItem(KEY, value)); },
  forget: () => { held = ""; sessionDo((session) => session.removeItem(KEY)); },
};

export class ApiError extends Error {
  constructor(status, message, param) {
    super(message);
    this.status = status;
    this.param = param;
  }
}

let refused = () => {};
export function onRefused(callback) { refused = callback; }
export const keyWanted = () => refused("");

async function failure(answer) {
  let error = {};
  try { error = (await answer.json()).error || {}; } catch { /* no JSON: only the status is reported */ }
  if (answer.status === 401) refused();
  const message = typeof error.message === "string" ? error.message : `The server returned status ${answer.status}.`;
  return new ApiError(answer.status, message, error.param);
}

async function call(path, init) {
  let answer;
  try {
    answer = await fetch(path, init);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The server does not respond. Is it still running?");
  }
  if (!answer.ok) throw await failure(answer);
  return answer;
}

const authorization = () => ({authorization: `Bearer ${key.get()}`});

const NO_ANSWER = "A proxy between this page and the server answered; it may require a login.";
const UNREADABLE = "The server sent an answer that this page cannot read.";
const CUT = "The answer is incomplete: the connection was closed.";

async function jsonOf(answer) {
  try {
    return await answer.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, error instanceof SyntaxError ? NO_ANSWER : CUT);
  }
}

export async function getJson(path) {
  return jsonOf(await call(path, {headers: authorization(), cache: "no-store"}));
}

export async function getText(path) {
  return (await call(path, {cache: "no-store"})).text();
}

function post(path, body, signal) {
  return call(path, {method: "POST", headers: {...authorization(), "content-type": "application/json"},
    body: JSON.stringify(body), signal});
}

export async function postJson(path, body, signal) {
  return jsonOf(await post(path, body, signal));
}

// Returns the data of one line of an event stream, or an empty string.
function dataOf(line, record) {
  record(line);
  return line.startsWith("data:") ? line.slice(5).trim() : "";
}

function eventOf(data) {
  try {
    const event = JSON.parse(data);
    if (event && typeof event === "object") return event;
  } catch { /* no JSON */ }
  throw new ApiError(0, UNREADABLE);
}

async function part(reader) {
  try {
    return await reader.read();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    return {done: true}; // the connection broke
  }
}

// Yields each event's JSON until [DONE]; `record` gets every line. Throws if the stream ends before [DONE].
export async function* postStream(path, body, signal, record) {
  const answer = await post(path, body, signal);
  if (!(answer.headers.get("content-type") || "").startsWith("text/event-stream")) {
    throw new ApiError(0, (await jsonOf(answer)).error?.message || NO_ANSWER);
  }
  const reader = answer.body.getReader(), decoder = new TextDecoder();
  try {
    for (let rest = ""; ;) {
      const {value, done} = await part(reader);
      const lines = (rest + (value ? decoder.decode(value, {stream: true}) : "")).split("\n");
      rest = lines.pop();
      for (const line of lines) {
        const data = dataOf(line, record);
        if (data === "[DONE]") return;
        if (data) yield eventOf(data);
      }
      if (done) throw new ApiError(0, CUT);
    }
  } finally {
    reader.cancel().catch(() => {}); // otherwise the server continues for no reader
  }
}

// Returns the message for an error. An unexpected exception is reported as an unreadable answer.
export const sentenceOf = (error) => (error instanceof ApiError ? error.message : UNREADABLE);
