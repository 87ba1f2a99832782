// SPDX-License-Identifier: Apache-2.0
// The settings of a conversation: system prompt, sampling, tools, form of the answer; and the request body made
// from them. An empty field has the value that the model recommends; if there is none, it is not sent, so the
// server's default applies.
import {el, find} from "./dom.js";

const NUMBERS = [ // name, label, least, most, step
  ["temperature", "Temperature", 0, 2, 0.05],
  ["top_p", "Top p", 0, 1, 0.01],
  ["top_k", "Top k", -1, 100000, 1],
  ["min_p", "Min p", 0, 1, 0.01],
  ["max_completion_tokens", "Max tokens", 1, 10000000, 1],
  ["seed", "Seed", 0, 2 ** 53 - 1, 1],
  ["frequency_penalty", "Frequency penalty", -2, 2, 0.1],
  ["presence_penalty", "Presence penalty", -2, 2, 0.1],
];

const TOOLS_EXAMPLE = [{type: "function", function: {name: "weather", description: "The weather in a city today",
  parameters: {type: "object", properties: {city: {type: "string", maxLength: 40}, unit: {enum: ["celsius", "fahrenheit"]}},
    required: ["city"], additionalProperties: false}}}];

const SCHEMA_EXAMPLE = {type: "object", properties: {name: {type: "string", maxLength: 40}, age: {type: "integer"},
  likes: {type: "array", items: {type: "string", maxLength: 20}, maxItems: 3}},
required: ["name", "age", "likes"], additionalProperties: false};

let now = {}; // settings of the selected conversation
let advice = {}; // sampling that its model recommends
let changed = () => {};

function parsed(settings, name, wanted) {
  if (!(settings[name] || "").trim()) return {};
  try {
    const value = JSON.parse(settings[name]);
    if (wanted === "array" ? Array.isArray(value) : value && typeof value === "object") return {value};
    return {fault: `This is not a JSON ${wanted}.`};
  } catch (error) {
    return {fault: `This is not valid JSON yet: ${error.message}.`};
  }
}

export function settingsFault(settings) {
  const tools = settings.tools_on ? parsed(settings, "tools", "array").fault : "";
  const schema = settings.schema_on ? parsed(settings, "schema", "object").fault : "";
  return (tools && `Tools: ${tools}`) || (schema && `Schema: ${schema}`) || "";
}

// Returns the active settings, for the line below the composer.
export function settingsModes(settings) {
  const modes = [];
  if ((settings.system || "").trim()) modes.push("system prompt");
  if (settings.tools_on) modes.push(`tools ${settings.tool_choice || "auto"}`);
  if (settings.schema_on) modes.push("JSON schema");
  if (settings.logprobs) modes.push("token probabilities");
  return modes.join(" · ");
}

function turnOf(message) {
  const out = {role: message.role, content: message.content};
  if (message.calls?.length) {
    out.tool_calls = message.calls.map((call) => ({id: call.id, type: "function",
      function: {name: call.name, arguments: call.arguments}}));
    if (!out.content) out.content = null;
  }
  if (message.role === "tool") out.tool_call_id = message.tool_call_id;
  return out;
}

const isEmpty = (message) => message?.role === "assistant" && !message.content && !message.calls?.length;

// Leaves out empty answers and their questions: they would fail again, or precede another question.
function isAsked(message, at, all) {
  return !isEmpty(message) && !(message.role === "user" && isEmpty(all[at + 1]));
}

// recommended: sampling_defaults of the model, or null.
export function requestBody({model, messages, settings}, recommended) {
  const body = {model, messages: [], stream: true, stream_options: {include_usage: true}};
  if ((settings.system || "").trim()) body.messages.push({role: "system", content: settings.system});
  body.messages.push(...messages.filter(isAsked).map(turnOf));
  Object.assign(body, recommended);
  for (const [name] of NUMBERS) if (Number.isFinite(parseFloat(settings[name]))) body[name] = parseFloat(settings[name]);
  const stops = (settings.stop || "").split("\n").filter(Boolean);
  if (stops.length) body.stop = stops;
  if (settings.logprobs) Object.assign(body, {logprobs: true, top_logprobs: 5});
  const tools = settings.tools_on ? parsed(settings, "tools", "array").value : null;
  if (tools?.length) Object.assign(body, {tools, tool_choice: settings.tool_choice || "auto"});
  const schema = settings.schema_on ? parsed(settings, "schema", "object").value : null;
  if (schema) body.response_format = {type: "json_schema", json_schema: {name: "answer", strict: true, schema}};
  return body;
}

function set(name, value) {
  now[name] = value;
  changed();
}

function numberField([name, label, least, most, step]) {
  return el("label.field", {}, el("span", {}, label),
    el("input", {type: "number", min: least, max: most, step, placeholder: advice[name] ?? "default", value: now[name] ?? "",
      id: `set-${name}`, inputmode: "decimal", oninput: (event) => set(name, event.target.value)}));
}

function textField(name, label, rows, more = {}) {
  return el("label.field.wide", {}, el("span", {}, label),
    el("textarea", {rows, id: `set-${name}`, value: now[name] ?? "", spellcheck: more.code ? "false" : null,
      placeholder: more.hint, class: more.code ? "mono" : null,
      oninput: (event) => { set(name, event.target.value); more.after?.(); }}));
}

function check(name, label, after) {
  return el("label.check", {}, el("input", {type: "checkbox", id: `set-${name}`, checked: Boolean(now[name]),
    onchange: (event) => { set(name, event.target.checked); after?.(); }}), el("span", {}, label));
}

// A field for JSON, with its error below (which also describes the field to screen readers) and a button.
function jsonField(name, label, wanted, example) {
  const fault = el("p.fault", {id: `set-${name}-fault`, role: "status"});
  const judge = () => { fault.textContent = parsed(now, name, wanted).fault || ""; };
  const field = textField(name, label, 9, {code: true, after: judge});
  const area = find("textarea", field);
  area.setAttribute("aria-describedby", fault.id);
  const button = el("button.quiet", {type: "button", onclick: () => {
    area.value = JSON.stringify(example, null, 2);
    set(name, area.value);
    judge();
  }}, "Insert an example");
  judge();
  return [field, fault, button];
}

function choiceField() {
  const select = el("select", {id: "set-tool_choice", onchange: (event) => set("tool_choice", event.target.value)},
    ["auto", "required", "none"].map((value) => el("option", {value, selected: (now.tool_choice || "auto") === value}, value)));
  return el("label.field", {}, el("span", {}, "Choice"), select);
}

function group(title, open, ...content) {
  return el("details.group", {open}, el("summary", {}, title), el("div.group-body", {}, content));
}

export function settingsShow(values, recommended, onChange, onClose) {
  now = values;
  advice = recommended || {};
  changed = onChange;
  find("#settings").replaceChildren(
    el("div.dialog-head", {}, el("h2", {}, "Settings"), el("button.quiet", {type: "button", onclick: onClose}, "Close")),
    textField("system", "System prompt", 4, {hint: "You are a helpful assistant."}),
    group("Sampling", true, el("div.grid", {}, NUMBERS.map(numberField)), textField("stop", "Stop strings, one per line", 2),
      check("logprobs", "Token probabilities")),
    group("Tools", Boolean(now.tools_on), check("tools_on", "Send these tools"), choiceField(),
      jsonField("tools", "Tools as JSON", "array", TOOLS_EXAMPLE)),
    group("JSON schema", Boolean(now.schema_on), check("schema_on", "The answer must match this schema"),
      jsonField("schema", "Schema", "object", SCHEMA_EXAMPLE)),
    el("p.hint", {}, "Empty fields use what the model recommends, else the server's defaults."));
}
