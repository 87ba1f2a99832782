// SPDX-License-Identifier: Apache-2.0
// Shared by the embeddings and the rerank panel: a bar with a choice of models, a form, one request, its result.
import {postJson, sentenceOf} from "./api.js";
import {el, find, options} from "./dom.js";
import {wireBegin} from "./wire.js";

export const linesOf = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);

async function send(event, {name, path, ask, recorded, show}) {
  event.preventDefault();
  const out = find(`#${name}-out`), button = find(`#${name}-go`);
  const fail = (message) => out.replaceChildren(el("p.fault", {role: "alert"}, message));
  const {fault, body} = ask(find(`#${name}-model`).value);
  if (fault) {
    fail(fault);
    return;
  }
  const wire = wireBegin(name, path, body);
  button.disabled = true;
  try {
    const answer = await postJson(path, body);
    wire.answer(recorded ? recorded(answer) : answer);
    out.replaceChildren(...show(answer, body));
  } catch (error) {
    wire.failed(sentenceOf(error));
    fail(sentenceOf(error));
  }
  button.disabled = false;
}

// {name, title, kind of models, missing: message if there is none, fields: nodes, go: label of the button, hint, path,
//  ask: (model) => {body} or {fault}, recorded: part of the answer that the request window shows, show: (answer, body) => nodes}
export function formOpen(panel, what) {
  const {name, title, kind, missing, fields, go, hint} = what;
  panel.append(el("div.bar", {}, el("h1", {id: `${name}-title`}, title),
    el("label.pick", {}, el("span.unseen", {}, `Model for ${name}`), el("select", {id: `${name}-model`})),
    el("button.quiet", {type: "button", "data-wire": name}, "Request")),
  el("div.scroll", {}, el("div.sheet", {},
    el("form.ask-form", {onsubmit: (event) => send(event, what)}, fields,
      el("div.buttons.left", {}, el("button.primary", {type: "submit", id: `${name}-go`}, go), hint && el("span.hint", {}, hint))),
    el("div.results-out", {id: `${name}-out`}))));
  return {models: (all) => {
    const served = all.filter((model) => model.kind === kind).map((model) => model.id);
    options(find(`#${name}-model`), served, find(`#${name}-model`).value);
    find(`#${name}-go`).disabled = !served.length;
    if (!served.length) find(`#${name}-out`).replaceChildren(el("p.hint", {}, missing));
  }};
}
