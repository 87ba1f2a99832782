// SPDX-License-Identifier: Apache-2.0
// The models panel: the served models and their planned memory, from /v1/models and /metrics.
import {sentenceOf} from "./api.js";
import {bytes, el, find} from "./dom.js";
import {samples} from "./metrics.js";

const KINDS = {generator: "chat, responses, messages, completions", embedder: "embeddings", reranker: "rerank"};
const SHOWN = 4; // number of parts shown separately
const KEPT = "keys and values"; // name of this part in /metrics

const state = {models: []};

const count = (value) => (value >= 1e9 ? `${(value / 1e9).toFixed(1)} billion` : `${(value / 1e6).toFixed(value >= 1e7 ? 0 : 1)} million`);

// Returns weights, keys and values, the largest other parts, and the sum of the rest.
function partsOf(all) {
  const first = ([part]) => part === "weights" || part.startsWith(KEPT);
  const sorted = [...all].sort((a, b) => first(b) - first(a) || b[1] - a[1]);
  const rest = sorted.slice(SHOWN).reduce((sum, [, size]) => sum + size, 0);
  return rest ? [...sorted.slice(0, SHOWN), ["other", rest]] : sorted;
}

function plan(heading, parts) {
  const total = parts.reduce((sum, [, size]) => sum + size, 0);
  const bar = el("div.stack", {"aria-hidden": "true"}, parts.map(([, size], at) => {
    const piece = el(`span.piece-${at}`);
    piece.style.setProperty("--share", `${(100 * size) / total}%`);
    return piece;
  }));
  return [el("h3", {}, `${heading}, ${bytes(total)}`), bar, el("ul.legend", {}, parts.map(([name, size], at) =>
    el("li", {}, el(`span.dot.piece-${at}`, {"aria-hidden": "true"}), el("span", {}, name), el("span.number", {}, bytes(size)))))];
}

// Returns for each engine of the model, in order: its labels, numbers and memory in /metrics.
function copiesOf(model, all) {
  const copies = new Map();
  for (const {name, labels, value} of all.filter((each) => each.labels.model_name === model.id)) {
    if (!copies.has(labels.engine)) copies.set(labels.engine, {info: {}, memory: []});
    const copy = copies.get(labels.engine);
    if (name === "weft_model_info") copy.info = labels;
    else if (name === "weft_model_memory_bytes") copy.memory.push([labels.part, value]);
    else copy[name] = value;
  }
  return [...copies.values()];
}

function copyPlan({info, memory, weft_kv_blocks: blocks}, at, all) {
  const tokens = blocks * Number(info.block_size);
  const parts = memory.map(([part, size]) => [part === KEPT && tokens ? `${part}, ${tokens.toLocaleString("en")} tokens` : part, size]);
  const shares = !memory.some(([part]) => part === "weights");
  return [plan(`${all.length > 1 ? `Copy ${at}` : "Memory plan"} on ${info.device}`, partsOf(parts)),
    shares ? el("p.hint", {}, "This copy shares the weights of the previous copy.") : null];
}

function faultOf(copies) {
  const failed = copies.flatMap((copy, at) => (copy.weft_engine_failed ? [at] : []));
  if (!failed.length) return null;
  return el("p.fault", {}, failed.length === copies.length ? "The device of this model has failed. Restart weft to use the model again."
    : `The device of copy ${failed.join(" and ")} has failed; the other copies still work.`);
}

function card(model, all) {
  const copies = copiesOf(model, all), info = copies[0]?.info || {};
  const facts = [["Serves", KINDS[model.kind] || model.kind], ["Architecture", info.architecture],
    ["Parameters", info.parameters && count(Number(info.parameters))], ["Weights", info.dtype],
    ["Context", `${model.max_model_len.toLocaleString("en")} tokens`], ["Keys and values", info.kv_dtype]];
  return el("article.card", {}, el("h2", {}, model.id), faultOf(copies),
    el("dl", {}, facts.filter(([, text]) => text).map(([name, text]) => el("div", {}, el("dt", {}, name), el("dd", {}, text)))),
    copies.map((copy, at) => el("section", {}, copyPlan(copy, at, copies))));
}

async function draw() {
  const out = find("#models-out");
  if (!state.models.length || find("#panel-models").hidden) return;
  try {
    const all = await samples(["weft_model_info", "weft_model_memory_bytes", "weft_kv_blocks", "weft_engine_failed",
      "process_resident_memory_bytes"]);
    const resident = all.find((each) => each.name === "process_resident_memory_bytes");
    out.replaceChildren(...state.models.map((model) => card(model, all)),
      el("p.note", {}, `The process holds ${bytes(resident ? resident.value : 0)} now; the plan is its maximum.`));
  } catch (error) {
    out.replaceChildren(el("p.fault", {role: "alert"}, sentenceOf(error)));
  }
}

export function modelsOpen(panel) {
  panel.append(el("div.bar", {}, el("h1", {id: "models-title"}, "Models")),
    el("div.scroll", {tabindex: "0", role: "region", "aria-label": "Models and their memory"}, el("div.sheet", {}, el("div.cards", {id: "models-out"}))));
  return {models: (all) => { state.models = all; draw(); }, show: draw};
}
