// SPDX-License-Identifier: Apache-2.0
// Starts the page: selects the panel by the fragment of the address, sets the theme, asks for the key, loads the models.
import {getJson, key, onRefused, sentenceOf} from "./api.js";
import {chatOpen} from "./chat.js";
import {find} from "./dom.js";
import {embeddingsOpen} from "./embeddings.js";
import {liveOpen} from "./live.js";
import {modelsOpen} from "./models.js";
import {rerankOpen} from "./rerank.js";
import {preference} from "./store.js";
import {wireShow} from "./wire.js";

const panels = {};
const page = {models: [], panel: "", retry: 0}; // retry: timer that loads the models again
const OPENERS = {chat: chatOpen, embeddings: embeddingsOpen, rerank: rerankOpen, live: liveOpen, models: modelsOpen};

function panelShow(name) {
  if (!Object.hasOwn(OPENERS, name)) name = "chat";
  if (page.panel && page.panel !== name) panels[page.panel].hide?.();
  page.panel = name;
  for (const each of Object.keys(OPENERS)) find(`#panel-${each}`).hidden = each !== name;
  for (const link of document.querySelectorAll(".tabs a")) {
    if (link.dataset.panel === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.body.dataset.panel = name;
  document.title = `weft – ${name[0].toUpperCase()}${name.slice(1)}`;
  panels[name].show?.();
}

function themeSet(value) {
  if (value === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = value;
}

function themeOpen() {
  const select = find("#theme");
  const known = ["auto", "light", "dark"];
  select.value = known.includes(preference("theme")) ? preference("theme") : "auto";
  themeSet(select.value);
  select.addEventListener("change", () => themeSet(preference("theme", select.value)));
}

function keyAsk(fault = "") {
  const dialog = find("#key-dialog");
  find("#key-fault").textContent = fault;
  find("#key-text").value = "";
  if (!dialog.open) dialog.showModal();
  find("#key-text").focus();
}

function stateSay(text, fine) {
  const state = find("#server-state");
  state.textContent = text;
  state.classList.toggle("fine", fine);
}

// Loads the models with the tab's key. Returns false if the page must ask for a key.
async function modelsLoad() {
  if (!key.get()) return false;
  clearTimeout(page.retry);
  try {
    page.models = (await getJson("/v1/models")).data;
    for (const panel of Object.values(panels)) panel.models?.(page.models);
    stateSay(`${page.models.length} ${page.models.length === 1 ? "model" : "models"} on ${location.host}`, true);
    return true;
  } catch (error) {
    stateSay(sentenceOf(error), false);
    if (error.status === 401) return false;
    clearTimeout(page.retry); // another call may have failed meanwhile
    page.retry = setTimeout(modelsLoad, 2000); // the models are still loading, or the server is unreachable
    return true;
  }
}

function keyOpen() {
  const dialog = find("#key-dialog");
  find("#key-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = find("#key-text").value.trim(), fault = key.fault(text);
    if (fault) {
      keyAsk(fault);
      return;
    }
    key.set(text);
    if (await modelsLoad()) dialog.close();
    else keyAsk("The server does not accept this key.");
  });
  find("#key-cancel").addEventListener("click", () => dialog.close());
  find("#key-change").addEventListener("click", () => keyAsk());
  onRefused((fault = "The server no longer accepts this key.") => { key.forget(); if (!dialog.open) keyAsk(fault); });
}

async function begin() {
  themeOpen();
  keyOpen();
  for (const [name, open] of Object.entries(OPENERS)) panels[name] = open(find(`#panel-${name}`));
  for (const button of document.querySelectorAll("[data-wire]")) {
    button.addEventListener("click", () => wireShow(button.dataset.wire));
  }
  const turn = () => panelShow(location.hash.slice(1));
  addEventListener("hashchange", turn);
  find(".skip").addEventListener("click", (event) => { event.preventDefault(); find("#main").focus(); });
  turn();
  if (!(await modelsLoad())) {
    stateSay("No key yet", false);
    keyAsk();
  }
}

begin();
