// SPDX-License-Identifier: Apache-2.0
// The messages of a conversation as elements: markdown, reasoning, tool calls with a form for their results, speed,
// and buttons.
import {codeBlock} from "./code.js";
import {copy, el} from "./dom.js";
import {markdown} from "./markdown.js";
import {tokensView} from "./tokens.js";

// Returns null if the text is not a complete JSON value.
function jsonPretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return null;
  }
}

// An answer that is one JSON value is shown as formatted JSON.
function bodyOf(message) {
  const maybe = message.role === "assistant" && /^\s*[[{]/.test(message.content);
  const json = maybe ? jsonPretty(message.content) : null;
  return json === null ? markdown(message.content) : [codeBlock(json, "json")];
}

function callCard(call) {
  return el("div.call", {}, el("p.call-name", {}, "Call: ", el("code", {}, call.name)), codeBlock(jsonPretty(call.arguments) ?? call.arguments, "json"));
}

// A text area for the result of each call, and one button that sends all results.
function resultsForm(message, onResults) {
  const areas = message.calls.map((call) => el("textarea.mono", {rows: "2", required: true, spellcheck: "false"}));
  return el("form.results", {onsubmit: (event) => {
    event.preventDefault();
    onResults(message.calls.map((call, at) => ({role: "tool", tool_call_id: call.id, name: call.name, content: areas[at].value})));
  }}, message.calls.map((call, at) => el("label.field.wide", {}, el("span", {}, `Result of ${call.name}`), areas[at])),
  el("button.primary", {type: "submit"}, "Send results"));
}

function actions(message, view, on) {
  const row = el("div.actions");
  const button = (label, onclick, more = {}) => {
    const made = el("button.quiet", {type: "button", onclick: () => onclick(made), ...more}, label);
    row.append(made);
  };
  if (message.note) row.append(el("span.note", {}, message.note));
  if (message.content) button("Copy", (made) => copy(message.content, made));
  if (message.role === "user" && on.edit) button("Edit", () => on.edit(message));
  if (message.role === "assistant" && message.tokens?.length) {
    button("Tokens", (made) => {
      const open = made.getAttribute("aria-expanded") === "true";
      made.setAttribute("aria-expanded", String(!open));
      view.tokens.replaceChildren(...(open ? [] : [tokensView(message.tokens)]));
    }, {"aria-expanded": "false"});
  }
  if (message.role === "assistant" && on.again) button("Try again", () => on.again(message));
  return row;
}

const WHO = {user: "You", assistant: "Answer", tool: "Result"};

// Creates the element of one message. update() redraws it; on: callbacks edit, again, results, if allowed.
export function turnView(message, model) {
  const view = {tokens: el("div"), content: el("div.prose"), thoughts: el("div.prose"), calls: el("div"), foot: el("div")};
  const thinking = el("details.thoughts", {hidden: true}, el("summary", {}, "Reasoning"), view.thoughts);
  const name = message.role === "assistant" ? model || WHO.assistant : message.role === "tool" ? `${WHO.tool} of ${message.name || "a tool"}` : WHO.user;
  view.node = el(`li.turn.${message.role}`, {}, el("h2.who", {}, name), thinking, view.content, view.calls, view.tokens, view.foot);
  view.update = (on) => {
    thinking.hidden = !message.reasoning;
    if (message.reasoning) view.thoughts.replaceChildren(...markdown(message.reasoning));
    view.content.replaceChildren(...bodyOf(message));
    if (on.busy && !message.content && !message.reasoning && !message.calls?.length) view.content.append(el("span.waiting", {role: "img", "aria-label": "Waiting for the first token"}));
    view.calls.replaceChildren(...(message.calls || []).map(callCard));
    if (message.error) view.content.append(el("p.fault", {role: "alert"}, message.error));
    if (on.results && message.calls?.length) view.calls.append(resultsForm(message, on.results));
    view.foot.replaceChildren(...(on.busy ? [] : [actions(message, view, on)]));
  };
  return view;
}
