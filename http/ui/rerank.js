// SPDX-License-Identifier: Apache-2.0
// The rerank panel: a query and documents, sorted by relevance, with bars.
import {el, find} from "./dom.js";
import {formOpen, linesOf} from "./forms.js";

const QUERY = "How should I wash wool?";
const EXAMPLE = ["Wash wool by hand in cold water and dry it flat.", "Cotton grows in warm regions with long summers.",
  "Hot water and rubbing make wool felt and shrink.", "The museum opens at nine and closes at five.",
  "Silk is spun by caterpillars that eat mulberry leaves.", "Use a wool programme and a mild detergent, never a tumble dryer."];

function row(result, document, best) {
  const fill = el("span.meter-fill");
  fill.style.setProperty("--share", `${Math.max(0, Math.min(1, result.relevance_score / (best || 1))) * 100}%`);
  return el("li", {}, el("span.rank-text", {}, document), el("span.number", {}, result.relevance_score.toFixed(3)),
    el("span.meter", {"aria-hidden": "true"}, fill));
}

function ask(model) {
  const documents = linesOf(find("#rerank-text").value), query = find("#rerank-query").value.trim();
  return query && documents.length ? {body: {model, query, documents}} : {fault: "Write a query and at least one document."};
}

function show(answer, {documents}) {
  const best = Math.max(...answer.results.map((each) => each.relevance_score));
  return [el("h2", {}, "Sorted by relevance"), el("ol.ranks", {}, answer.results.map((result) => row(result, documents[result.index], best))),
    el("p.note", {role: "status"}, `${documents.length} documents; the highest score is ${best.toFixed(3)}, and the bars are relative to it`)];
}

export function rerankOpen(panel) {
  return formOpen(panel, {name: "rerank", title: "Rerank", kind: "reranker", path: "/v1/rerank", go: "Sort by relevance", ask, show,
    missing: "This server has no reranker. Start weft with one, for example: weft serve models/weft-demo-rerank",
    fields: [el("label.field", {}, el("span", {}, "Query"), el("input", {type: "text", id: "rerank-query", value: QUERY})),
      el("label.field", {}, el("span", {}, "Documents, one per line"),
        el("textarea", {id: "rerank-text", rows: "6", value: EXAMPLE.join("\n")}))]});
}
