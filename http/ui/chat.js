// The chat panel: the conversation that is shown, sending and stopping, the list of conversations.
import {ApiError, key, keyWanted, postStream, sentenceOf} from "./api.js";
import {el, find, options} from "./dom.js";
import {requestBody, settingsFault, settingsModes, settingsShow} from "./settings.js";
import {conversationForget, conversationKeep, conversationNew, conversationRemove, conversationsRead, idNew, onElsewhere, onUnkept, preference} from "./store.js";
import {tokenOf} from "./tokens.js";
import {turnView} from "./turns.js";
import {wireBegin} from "./wire.js";

const STARTERS = ["What is the capital of France, and what is it known for?", "Write a Python function that reverses a string.",
  "Write a short email that asks for a day off."];
const BUILT_IN = "weft-demo-chat"; // made by a script: it knows no words
const MEASURABLE = 0.02; // seconds: an answer that came in one piece has no speed
const KEEP_MS = 2000; // between two writes of an answer that grows
const NEAR_END = 80; // pixels: who is so near the end follows the answer

const PATH = "/v1/chat/completions";
const EDITING = "What is sent replaces this message and all after it.";

const state = {all: [], now: null, models: [], views: [], edited: null,
  answers: new Map(), // of conversations whose answer has not ended, what stops it
  draft: ""}; // what was being typed when an edit began

const said = (text) => { find("#chat-said").textContent = text; };
const save = (conversation = state.now) => { if (state.all.includes(conversation)) conversationKeep(conversation); };
const answering = () => state.answers.has(state.now);
const stop = (conversation) => state.answers.get(conversation)?.abort();

// Conversations

function titleOf(conversation) {
  return conversation.title || "New conversation";
}

function choose(conversation) {
  if (state.edited) editEnd();
  state.now = conversation;
  preference("conversation", conversation.id);
  if (!state.models.some((model) => model.id === conversation.model)) conversation.model = state.models[0]?.id || conversation.model;
  find("#chat-model").value = conversation.model;
  show(true);
  listDraw();
}

function show(atEnd) {
  settingsShow(state.now.settings, settingsChanged, () => settingsToggle(false));
  modesSay();
  draw(atEnd);
}

// What another tab kept, or null for what it removed. Where an answer runs here, too, both are kept.
function elsewhere(id, kept) {
  const known = state.all.find((each) => each.id === id), runs = state.answers.has(known);
  if (!kept && (!known || runs)) return;
  if (known && !runs && known === state.now && state.edited) editEnd();
  const relist = !known || runs || !kept || known.title !== kept.title;
  if (runs) Object.assign(known, {id: idNew(), title: `${titleOf(known)} (2)`});
  else if (known && kept) Object.assign(known, kept);
  if (!kept) {
    conversationForget(known);
    state.all = state.all.filter((each) => each !== known);
  }
  else if (!known || runs) state.all.push(kept);
  if (relist) {
    state.all.sort((a, b) => b.updated - a.updated);
    listDraw();
  }
  if (runs) save(known);
  else if (known === state.now && kept) show(false);
  else if (known === state.now) begin();
}

function begin() {
  const empty = state.all.find((each) => each.messages.length === 0);
  const fresh = empty || conversationNew(state.now?.settings || {}, state.now?.model || "");
  if (!empty) state.all.unshift(fresh);
  choose(fresh);
  historyToggle(false);
  find("#ask-text").focus();
}

// The first press asks, the second removes.
function removeAsked(conversation, button) {
  if (button.classList.contains("sure") || !conversation.messages.length) {
    remove(conversation);
    return;
  }
  button.classList.add("sure");
  button.textContent = "Delete?";
  button.setAttribute("aria-label", `Really delete ${titleOf(conversation)}`);
  button.focus();
  button.addEventListener("blur", listDraw, {once: true});
}

function remove(conversation) {
  stop(conversation);
  state.all = state.all.filter((each) => each !== conversation);
  conversationRemove(conversation);
  if (state.now === conversation) begin();
  else listDraw();
  find("#chat-new").focus();
}

function rename(conversation, row) {
  const field = el("input", {type: "text", value: titleOf(conversation), "aria-label": "Title", maxlength: "120"});
  let ended = false; // removing the field fires its blur
  const done = (keep) => {
    if (ended) return;
    ended = true;
    if (keep && field.value.trim()) conversation.title = field.value.trim();
    save(conversation);
    listDraw();
    find(`[data-id="${CSS.escape(conversation.id)}"]`)?.focus();
  };
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === "Escape") { event.stopPropagation(); done(event.key === "Enter"); }
  });
  field.addEventListener("blur", () => done(true));
  row.replaceChildren(field);
  field.select();
}

function listDraw() {
  find("#conversations").replaceChildren(...state.all.map((each) => {
    const title = titleOf(each);
    const row = el("li", {}, el("button.conversation", {type: "button", "data-id": each.id,
      "aria-current": each === state.now ? "true" : null, onclick: () => { choose(each); historyToggle(false); }}, title),
    el("button.quiet.mini", {type: "button", "aria-label": `Rename ${title}`, title: "Rename", onclick: () => rename(each, row)}, "✎"),
    el("button.quiet.mini", {type: "button", "aria-label": `Delete ${title}`, title: "Delete",
      onclick: (event) => removeAsked(each, event.currentTarget)}, "×"));
    return row;
  }));
  listMark();
}

// A conversation that is being answered is marked in the list.
function listMark() {
  const answered = new Set([...state.answers.keys()].map((each) => each.id));
  for (const button of document.querySelectorAll(".conversation")) {
    button.classList.toggle("answering", answered.has(button.dataset.id));
    button.title = answered.has(button.dataset.id) ? "The answer is coming" : "";
  }
}

// Messages

function follow(force) {
  const stream = find("#stream");
  if (force || stream.scrollHeight - stream.scrollTop - stream.clientHeight < NEAR_END) stream.scrollTop = stream.scrollHeight;
}

function actionsOf(message) {
  const last = state.now.messages.at(-1) === message;
  return {busy: answering() && last,
    edit: answering() ? null : edit,
    again: answering() || !last ? null : again,
    results: last && !answering() ? results : null};
}

function draw(atEnd = true) {
  const empty = state.now.messages.length === 0;
  find("#welcome").replaceChildren(...(empty ? [welcome()] : []));
  state.views = state.now.messages.map((message) => [message, turnView(message, state.now.model)]);
  for (const [message, view] of state.views) view.update(actionsOf(message));
  find("#turns").replaceChildren(...state.views.map(([, view]) => view.node));
  find("#ask-send").hidden = answering();
  find("#ask-stop").hidden = !answering();
  find("#stream").setAttribute("aria-busy", String(answering()));
  follow(atEnd);
}

function welcome() {
  return el("div.welcome", {}, el("h2", {}, "What shall we weave?"),
    el("p", {}, "Conversations stay in this browser. Settings hold the system prompt, sampling, tools and a JSON schema; ",
      "Request shows what went over the wire, ready to copy."),
    state.now.model === BUILT_IN && el("p.fault", {}, "This built-in model was made by a script: what it says means nothing. ",
      el("code", {}, "make serve"), " with a network fetches one that talks."),
    el("ul.starters", {}, STARTERS.map((text) => el("li", {}, el("button", {type: "button", onclick: () => {
      find("#ask-text").value = text;
      grow();
      find("#ask-text").focus();
    }}, text)))));
}

// The message goes into the composer; it and what followed it stay until another is sent. What was being typed there
// comes back afterwards.
function edit(message) {
  if (!state.edited) state.draft = find("#ask-text").value;
  state.edited = message;
  find("#ask-text").value = message.content;
  find("#ask-cancel").hidden = false;
  modesSay();
  for (const [each, view] of state.views) view.node.classList.toggle("replaced", each === message);
  grow();
  find("#ask-text").focus();
}

function editEnd() {
  state.edited = null;
  find("#ask-text").value = state.draft;
  find("#ask-cancel").hidden = true;
  modesSay();
  for (const [, view] of state.views) view.node.classList.remove("replaced");
  grow();
}

// Says what must be mended before anything is sent, if something must.
function faultSaid(fault = settingsFault(state.now.settings)) {
  if (fault) modesSay(fault);
  return fault !== "";
}

function again(message) {
  if (faultSaid()) return;
  if (state.edited) editEnd();
  state.now.messages.splice(state.now.messages.indexOf(message), 1);
  answer();
}

function results(messages) {
  if (faultSaid()) return;
  if (state.edited) editEnd();
  state.now.messages.push(...messages);
  answer();
}

// Answers

function callsTake(message, parts) {
  message.calls ||= [];
  for (const part of parts) {
    const call = message.calls[part.index] ||= {id: "", name: "", arguments: ""};
    call.id ||= part.id || "";
    call.name += part.function?.name || "";
    call.arguments += part.function?.arguments || "";
  }
}

function take(message, event, facts) {
  if (event.error) throw new ApiError(0, event.error.message || "The stream ended with an error.");
  if (event.usage) facts.usage = event.usage;
  const choice = event.choices?.[0];
  if (!choice) return;
  const delta = choice.delta || {};
  const more = delta.content || delta.reasoning_content || delta.tool_calls;
  if (more) facts.first ||= performance.now();
  message.content += delta.content || "";
  if (delta.reasoning_content) message.reasoning = (message.reasoning || "") + delta.reasoning_content;
  if (delta.tool_calls) callsTake(message, delta.tool_calls);
  if (choice.logprobs?.content) (message.tokens ||= []).push(...choice.logprobs.content.map(tokenOf));
  if (choice.finish_reason) facts.reason = choice.finish_reason;
}

const REASONS = new Map([["length", "cut at the limit"], ["tool_calls", "calls tools"], ["content_filter", "filtered"]]);
const UNFINISHED = "not finished";

function noteOf(facts, stopped, failed) {
  const parts = [], tokens = facts.usage?.completion_tokens;
  if (facts.first) parts.push(`first token ${((facts.first - facts.begun) / 1000).toFixed(2)} s`);
  if (tokens) parts.push(`${tokens} tokens`);
  const seconds = (performance.now() - facts.first) / 1000;
  if (tokens > 1 && seconds > MEASURABLE) parts.push(`${((tokens - 1) / seconds).toFixed(1)} a second`);
  if (stopped) parts.push("stopped");
  else if (failed) parts.push(UNFINISHED);
  else if (REASONS.has(facts.reason)) parts.push(REASONS.get(facts.reason));
  return parts.join(" · ");
}

// Draws at most once a frame, however fast the tokens come, and only while the message is shown.
function painter(message) {
  let due = false;
  return () => {
    if (due) return;
    due = true;
    requestAnimationFrame(() => {
      due = false;
      const view = state.views.find(([each]) => each === message)?.[1];
      if (!view || !answering()) return;
      view.update({busy: true});
      follow(false);
    });
  };
}

async function stream(conversation, message, signal) {
  const body = requestBody({...conversation, messages: conversation.messages.slice(0, -1)});
  const wire = wireBegin("chat", PATH, body), paint = painter(message);
  const facts = {begun: performance.now()};
  let stopped = false, kept = facts.begun;
  try {
    for await (const event of postStream(PATH, body, signal, wire.line)) {
      take(message, event, facts);
      paint();
      if (performance.now() - kept > KEEP_MS) {
        kept = performance.now();
        save(conversation);
      }
    }
  } catch (error) {
    stopped = error.name === "AbortError";
    if (!stopped && !facts.reason) { // after its reason nothing of the answer is missing
      message.error = sentenceOf(error);
      wire.failed(message.error);
    }
  }
  message.note = noteOf(facts, stopped, message.error);
}

// Goes on where another conversation is chosen meanwhile.
async function answer() {
  const conversation = state.now, message = {role: "assistant", content: "", note: UNFINISHED}, abort = new AbortController();
  conversation.messages.push(message);
  conversation.updated = Date.now();
  state.answers.set(conversation, abort);
  save(conversation);
  said("The answer begins.");
  draw();
  listMark();
  try {
    await stream(conversation, message, abort.signal);
  } finally {
    state.answers.delete(conversation);
    save(conversation);
    listMark();
    if (state.now === conversation) draw();
  }
  const where = state.now === conversation ? "" : ` in ${titleOf(conversation)}`;
  said(message.error ? "" : `The answer${where} is complete: ${message.note || "empty"}.`);
}

function send() {
  const field = find("#ask-text"), text = field.value.trim();
  if (!text || answering()) return;
  if (!key.get()) {
    keyWanted();
    return;
  }
  if (faultSaid(state.now.model ? undefined : "No model for chat is served here.")) return;
  if (state.edited) {
    state.now.messages.splice(state.now.messages.indexOf(state.edited));
    editEnd();
  } else {
    field.value = "";
    grow();
  }
  state.now.messages.push({role: "user", content: text});
  if (!state.now.title) state.now.title = text.split("\n")[0].slice(0, 60);
  state.all = [state.now, ...state.all.filter((each) => each !== state.now)];
  listDraw();
  answer();
}

// The frame around

function modesSay(text = state.edited ? EDITING : settingsModes(state.now.settings)) {
  find("#ask-modes").textContent = text;
}

function settingsChanged() {
  modesSay();
  save();
}

function settingsToggle(open) {
  find("#settings").hidden = !open;
  find("#settings-open").setAttribute("aria-expanded", String(open));
  if (open) find("#settings button").focus();
  else find("#settings-open").focus();
}

function historyToggle(open) {
  const was = document.body.classList.contains("history-shown");
  document.body.classList.toggle("history-shown", open);
  find("#history-open").setAttribute("aria-expanded", String(open));
  if (open) find("#chat-new").focus();
  else if (was) find("#history-open").focus();
}

function grow() {
  const field = find("#ask-text");
  field.style.height = "auto";
  field.style.height = `${Math.min(field.scrollHeight, 260)}px`;
}

// What is typed while nothing has the focus goes into the composer.
function typed(event) {
  return document.activeElement === document.body && event.key.length === 1 && event.key !== " " &&
    !event.ctrlKey && !event.metaKey && !event.altKey && !find("#panel-chat").hidden;
}

function keys(event) {
  if (find("dialog[open]")) return;
  if (typed(event)) find("#ask-text").focus();
  if (event.key !== "Escape") return;
  if (answering()) stop(state.now);
  else if (state.edited) editEnd();
  else if (document.body.classList.contains("history-shown")) historyToggle(false);
  else if (!find("#settings").hidden && find("#settings").contains(document.activeElement)) settingsToggle(false);
}

function listen() {
  find("#ask").addEventListener("submit", (event) => { event.preventDefault(); send(); });
  find("#ask-cancel").addEventListener("click", () => { editEnd(); find("#ask-text").focus(); });
  find("#ask-stop").addEventListener("click", () => stop(state.now));
  find("#ask-text").addEventListener("input", grow);
  find("#ask-text").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); send(); }
  });
  find("#chat-new").addEventListener("click", begin);
  find("#chat-model").addEventListener("change", (event) => {
    state.now.model = event.target.value;
    save();
    if (!state.now.messages.length) draw();
  });
  find("#settings-open").addEventListener("click", () => settingsToggle(find("#settings").hidden));
  find("#history-open").addEventListener("click", () => historyToggle(!document.body.classList.contains("history-shown")));
  addEventListener("keydown", keys);
  addEventListener("pagehide", () => { for (const each of state.answers.keys()) save(each); });
  onElsewhere(elsewhere);
  onUnkept((fault) => { if (find("#ask-unkept").textContent !== fault) find("#ask-unkept").textContent = fault; });
}

export function chatOpen() {
  listen();
  state.all = conversationsRead();
  const wanted = preference("conversation");
  choose(state.all.find((each) => each.id === wanted) || state.all[0] || (state.all[0] = conversationNew({}, "")));
  return {
    models: (all) => {
      state.models = all.filter((model) => model.kind === "generator");
      options(find("#chat-model"), state.models.map((model) => model.id), state.now.model);
      if (!state.models.some((model) => model.id === state.now.model)) state.now.model = state.models[0]?.id || "";
      find("#chat-model").value = state.now.model;
      if (!state.now.messages.length) draw();
    },
    hide: () => historyToggle(false),
  };
}
