// The rerank panel: a query and documents, ordered by relevance, with bars.
import {postJson} from "./api.js";
import {el, find, options} from "./dom.js";
import {wireBegin} from "./wire.js";

const QUERY = "How do I keep wool from shrinking?";
const EXAMPLE = ["Wash wool by hand in cold water and dry it flat.", "Cotton grows in warm regions with long summers.",
  "Hot water and rubbing make wool felt and shrink.", "The museum opens at nine and closes at five.",
  "Silk is spun by caterpillars that eat mulberry leaves.", "Use a wool programme and a mild detergent, never a tumble dryer."];

function row(result, document, best) {
  const fill = el("span.meter-fill");
  fill.style.setProperty("--share", `${Math.max(0, Math.min(1, result.relevance_score / (best || 1))) * 100}%`);
  return el("li", {}, el("span.rank-text", {}, document), el("span.number", {}, result.relevance_score.toFixed(3)),
    el("span.meter", {"aria-hidden": "true"}, fill));
}

async function order(event) {
  event.preventDefault();
  const out = find("#rerank-out"), button = find("#rerank-go");
  const documents = find("#rerank-text").value.split("\n").map((line) => line.trim()).filter(Boolean);
  const query = find("#rerank-query").value.trim();
  if (!query || !documents.length) {
    out.replaceChildren(el("p.fault", {role: "alert"}, "Write a query and at least one document."));
    return;
  }
  const body = {model: find("#rerank-model").value, query, documents};
  const wire = wireBegin("rerank", "/v1/rerank", body);
  button.disabled = true;
  try {
    const answer = await postJson("/v1/rerank", body);
    wire.answer(answer);
    const best = Math.max(...answer.results.map((each) => each.relevance_score));
    out.replaceChildren(el("h2", {}, "By relevance"),
      el("ol.ranks", {}, answer.results.map((result) => row(result, documents[result.index], best))),
      el("p.note", {role: "status"}, `${documents.length} documents, the best with ${best.toFixed(3)}; bars are relative to it`));
  } catch (error) {
    wire.failed(error.message);
    out.replaceChildren(el("p.fault", {role: "alert"}, error.message));
  }
  button.disabled = false;
}

export function rerankOpen(panel) {
  panel.append(el("div.bar", {}, el("h1", {id: "rerank-title"}, "Rerank"),
    el("label.pick", {}, el("span.unseen", {}, "Model for rerank"), el("select", {id: "rerank-model"})),
    el("button.quiet", {type: "button", "data-wire": "rerank"}, "Request")),
  el("div.scroll", {}, el("div.sheet", {},
    el("form.ask-form", {onsubmit: order},
      el("label.field", {}, el("span", {}, "Query"), el("input", {type: "text", id: "rerank-query", value: QUERY})),
      el("label.field", {}, el("span", {}, "Documents, one a line"), el("textarea", {id: "rerank-text", rows: "6", value: EXAMPLE.join("\n")})),
      el("div.buttons.left", {}, el("button.primary", {type: "submit", id: "rerank-go"}, "Order by relevance"))),
    el("div.results-out", {id: "rerank-out"}))));
  return {models: (all) => {
    const served = all.filter((model) => model.kind === "reranker").map((model) => model.id);
    options(find("#rerank-model"), served, find("#rerank-model").value);
    find("#rerank-go").disabled = !served.length;
    if (!served.length) find("#rerank-out").replaceChildren(el("p.hint", {}, "No reranker is served: start weft with one, as in 'weft serve models/weft-demo-rerank'."));
  }};
}
