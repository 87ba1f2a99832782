// Calls the server as any client does. The key lives in this tab's session storage and goes nowhere else.

const KEY = "weft-key";

export const key = {
  get: () => sessionStorage.getItem(KEY) || "",
  set: (value) => sessionStorage.setItem(KEY, value),
  forget: () => sessionStorage.removeItem(KEY),
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
  try { error = (await answer.json()).error || {}; } catch { /* no JSON: the status says it */ }
  if (answer.status === 401) refused();
  const message = typeof error.message === "string" ? error.message : `The server answered ${answer.status}.`;
  return new ApiError(answer.status, message, error.param);
}

async function call(path, init) {
  let answer;
  try {
    answer = await fetch(path, init);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The server does not answer: is it still running?");
  }
  if (!answer.ok) throw await failure(answer);
  return answer;
}

const authorization = () => ({authorization: `Bearer ${key.get()}`});

export async function getJson(path) {
  return (await call(path, {headers: authorization(), cache: "no-store"})).json();
}

export async function getText(path) {
  return (await call(path, {cache: "no-store"})).text();
}

function post(path, body, signal) {
  return call(path, {method: "POST", headers: {...authorization(), "content-type": "application/json"},
    body: JSON.stringify(body), signal});
}

export async function postJson(path, body, signal) {
  return (await post(path, body, signal)).json();
}

// One line of an event stream: gives the data of an event, or nothing.
function dataOf(line, record) {
  record(line);
  return line.startsWith("data:") ? line.slice(5).trim() : "";
}

// Yields each event's JSON until [DONE]; record gets every line as it came.
export async function* postStream(path, body, signal, record) {
  const answer = await post(path, body, signal);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const {value, done} = await reader.read();
    const lines = (rest + (value || "")).split("\n");
    rest = done ? "" : lines.pop();
    for (const line of lines) {
      const data = dataOf(line, record);
      if (data === "[DONE]") return;
      if (data) yield JSON.parse(data);
    }
    if (done) return;
  }
}
