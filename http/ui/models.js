// The models panel: what is served, and where its memory goes, from /v1/models and /metrics.
import {getText} from "./api.js";
import {bytes, el, find} from "./dom.js";
import {samples} from "./metrics.js";

const KINDS = {generator: "chat, responses, messages, completions", embedder: "embeddings", reranker: "rerank"};
const SHOWN = 4; // parts by their own name, the largest

const state = {models: []};

const count = (value) => (value >= 1e9 ? `${(value / 1e9).toFixed(1)} billion` : `${(value / 1e6).toFixed(value >= 1e7 ? 0 : 1)} million`);

// The largest parts, and the rest as one.
function partsOf(all) {
  const sorted = [...all].sort((a, b) => b[1] - a[1]);
  const rest = sorted.slice(SHOWN).reduce((sum, [, size]) => sum + size, 0);
  return rest ? [...sorted.slice(0, SHOWN), ["everything else", rest]] : sorted;
}

function plan(parts) {
  const total = parts.reduce((sum, [, size]) => sum + size, 0);
  const bar = el("div.stack", {"aria-hidden": "true"}, parts.map(([, size], at) => {
    const piece = el(`span.piece-${at}`);
    piece.style.setProperty("--share", `${(100 * size) / total}%`);
    return piece;
  }));
  return [el("h3", {}, `Memory plan, ${bytes(total)}`), bar, el("ul.legend", {}, parts.map(([name, size], at) =>
    el("li", {}, el(`span.dot.piece-${at}`, {"aria-hidden": "true"}), el("span", {}, name), el("span.number", {}, bytes(size)))))];
}

function card(model, all) {
  const own = all.filter((each) => each.labels.model_name === model.id);
  const info = own.find((each) => each.name === "weft_model_info")?.labels || {};
  const sums = new Map();
  for (const each of own.filter((one) => one.name === "weft_model_memory_bytes")) {
    sums.set(each.labels.part, (sums.get(each.labels.part) || 0) + each.value);
  }
  const blocks = own.find((each) => each.name === "weft_kv_blocks")?.value || 0;
  const failed = own.some((each) => each.name === "weft_engine_failed" && each.value > 0);
  const facts = [["Serves", KINDS[model.kind] || model.kind], ["Architecture", info.architecture],
    ["Parameters", info.parameters && count(Number(info.parameters))], ["Weights", info.dtype],
    ["Window", `${model.max_model_len.toLocaleString("en")} tokens`],
    ["Keys and values", blocks && info.block_size ? `${(blocks * Number(info.block_size)).toLocaleString("en")} tokens in ${info.kv_dtype}` : ""]];
  return el("article.card", {}, el("h2", {}, model.id), failed ? el("p.fault", {}, "Its device has failed: it answers no more until weft is started anew.") : null,
    el("dl", {}, facts.filter(([, text]) => text).map(([name, text]) => el("div", {}, el("dt", {}, name), el("dd", {}, text)))),
    sums.size ? plan(partsOf(sums)) : null);
}

async function draw() {
  const out = find("#models-out");
  if (!state.models.length) return;
  try {
    const all = samples(await getText("/metrics"), ["weft_model_info", "weft_model_memory_bytes", "weft_kv_blocks", "weft_engine_failed",
      "process_resident_memory_bytes"]);
    const resident = all.find((each) => each.name === "process_resident_memory_bytes");
    out.replaceChildren(...state.models.map((model) => card(model, all)),
      el("p.note", {}, `The process holds ${bytes(resident ? resident.value : 0)} now; a plan is what it may grow to.`));
  } catch (error) {
    out.replaceChildren(el("p.fault", {role: "alert"}, error.message));
  }
}

export function modelsOpen(panel) {
  panel.append(el("div.bar", {}, el("h1", {id: "models-title"}, "Models")),
    el("div.scroll", {tabindex: "0", role: "region", "aria-label": "Models and their memory"}, el("div.sheet", {}, el("div.cards", {id: "models-out"}))));
  return {models: (all) => { state.models = all; draw(); }, show: draw};
}
