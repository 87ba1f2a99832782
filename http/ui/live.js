// SPDX-License-Identifier: Apache-2.0
// The live panel: reads /metrics once per second (every four seconds while the page is hidden), also while another panel
// is shown, and draws charts of one model.
import {sentenceOf} from "./api.js";
import {chart} from "./charts.js";
import {el, find, options} from "./dom.js";
import {difference, mean, quantile, rate, reading, value} from "./metrics.js";

const EVERY_MS = 1000;
// Metric families that the charts read.
const FAMILIES = ["generation_tokens_total", "prompt_tokens_computed_total", "tokens_computed_total", "requests_submitted_total",
  "time_to_first_token_seconds", "inter_token_latency_seconds", "steps_total", "rows_total", "kv_blocks", "kv_blocks_used", "kv_blocks_cached",
  "sequences_running", "sequences_waiting", "prefix_cache_hits_total", "prefix_cache_queries_total"].map((name) => `weft_${name}`);

const whole = (x) => (x >= 100 ? Math.round(x).toLocaleString("en") : x.toFixed(x >= 10 ? 0 : 1));
const ms = (x) => (x >= 100 ? Math.round(x).toLocaleString("en") : x.toFixed(1));
const percent = (x) => `${x.toFixed(x >= 10 || x === 0 ? 0 : 1)} %`;
const milli = (seconds) => (seconds === null ? null : seconds * 1000);
const share = (part, all) => (all > 0 ? (100 * part) / all : null);

// Each entry: argument of chart(), kinds of models, and the function that computes the values from two readings.
const CHARTS = [
  [{title: "Throughput", unit: "tokens/s", lines: ["generated/s", "prompt/s"], least: 10, format: whole}, ["generator"],
    (a, b) => [rate(a, b, "weft_generation_tokens_total"), rate(a, b, "weft_prompt_tokens_computed_total")]],
  [{title: "Throughput", unit: "tokens/s", lines: ["tokens/s", "requests/s"], least: 10, format: whole}, ["embedder", "reranker"],
    (a, b) => [rate(a, b, "weft_tokens_computed_total"), rate(a, b, "weft_requests_submitted_total")]],
  [{title: "Time to first token", unit: "ms", lines: ["mean ms"], least: 10, format: ms}, ["generator"],
    (a, b) => [milli(mean(a, b, "weft_time_to_first_token_seconds"))]],
  [{title: "Time between tokens", unit: "ms", lines: ["median ms", "95 % ms"], least: 10, format: ms}, ["generator"],
    (a, b) => [0.5, 0.95].map((part) => milli(quantile(a, b, "weft_inter_token_latency_seconds", part)))],
  [{title: "Batch size", unit: "rows", lines: ["rows per step", "tokens per step"], least: 4, format: whole}, ["generator", "embedder", "reranker"],
    (a, b) => { const steps = difference(a, b, "weft_steps_total");
      return steps ? [difference(a, b, "weft_rows_total") / steps, difference(a, b, "weft_tokens_computed_total") / steps] : [0, 0]; }],
  [{title: "Keys and values", unit: "", lines: ["in use", "kept for reuse"], top: 100, format: percent}, ["generator"],
    (a, b) => ["weft_kv_blocks_used", "weft_kv_blocks_cached"].map((name) => share(value(b, name), value(b, "weft_kv_blocks")))],
  [{title: "Queue", unit: "sequences", lines: ["running", "waiting"], least: 4, format: (x) => x.toFixed(0)}, ["generator", "embedder", "reranker"],
    (a, b) => [value(b, "weft_sequences_running"), value(b, "weft_sequences_waiting")]],
  [{title: "Cache hits", unit: "", lines: ["of new prompts", "in all"], top: 100, format: percent}, ["generator"],
    (a, b) => [share(difference(a, b, "weft_prefix_cache_hits_total"), difference(a, b, "weft_prefix_cache_queries_total")),
      share(value(b, "weft_prefix_cache_hits_total"), value(b, "weft_prefix_cache_queries_total"))]],
];

const state = {models: [], charts: [], before: null, timer: 0, paused: false};

function chosen() {
  return state.models.find((model) => model.id === find("#live-model").value);
}

function rebuild() {
  const model = chosen();
  state.before = null;
  state.charts = CHARTS.filter(([, kinds]) => model && kinds.includes(model.kind))
    .map(([what, , values]) => ({...chart(what), values}));
  find("#live-charts").replaceChildren(...state.charts.map((each) => each.node));
  tick();
}

async function tick() {
  clearTimeout(state.timer);
  const model = chosen();
  if (state.paused || !model) return;
  try {
    const now = await reading(FAMILIES, model.id);
    if (model !== chosen()) return;
    if (state.before) for (const each of state.charts) each.push(each.values(state.before, now));
    state.before = now;
    find("#live-fault").textContent = "";
  } catch (error) {
    find("#live-fault").textContent = sentenceOf(error);
  }
  clearTimeout(state.timer);
  state.timer = setTimeout(tick, document.hidden ? 4 * EVERY_MS : EVERY_MS);
}

function pause(event) {
  state.paused = !state.paused;
  event.target.setAttribute("aria-pressed", String(state.paused));
  event.target.textContent = state.paused ? "Continue" : "Pause";
  state.before = null;
  tick();
}

export function liveOpen(panel) {
  panel.append(el("div.bar", {}, el("h1", {id: "live-title"}, "Live"),
    el("label.pick", {}, el("span.unseen", {}, "Model to watch"), el("select", {id: "live-model", onchange: rebuild})),
    el("button.quiet", {type: "button", id: "live-pause", "aria-pressed": "false", onclick: pause}, "Pause")),
  el("div.scroll", {tabindex: "0", role: "region", "aria-label": "Charts"}, el("div.sheet", {}, el("p.fault", {id: "live-fault", role: "alert"}),
    el("div.charts", {id: "live-charts"}),
    el("p.note", {}, "The last 60 readings of /metrics: one per second while this page is visible, otherwise one every four seconds."))));
  return {
    models: (all) => {
      state.models = all;
      const before = find("#live-model").value;
      options(find("#live-model"), all.map((model) => model.id), before);
      if (find("#live-model").value !== before || !state.charts.length) rebuild();
    },
  };
}
