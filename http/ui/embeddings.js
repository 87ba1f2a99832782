// SPDX-License-Identifier: Apache-2.0
// The embeddings panel: texts, one per line, and the similarity of each pair.
import {el, find} from "./dom.js";
import {formOpen, linesOf} from "./forms.js";

const EXAMPLE = ["The loom is warm from the morning's work.", "A weaver pulls the thread tight.", "Her loom clacks all day long.",
  "Rain is expected in the north tomorrow.", "Tomorrow the north gets showers.", "The invoice is due in thirty days.",
  "Please pay the bill within a month."];
const MOST = 40; // most texts: a larger table would be unreadable

function alike(a, b) {
  let dot = 0, aa = 0, bb = 0;
  for (let i = 0; i < a.length; i++) {
    dot += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return aa && bb ? dot / Math.sqrt(aa * bb) : 0;
}

function cell(value, least, same) {
  const node = el(same ? "td.same" : "td", {}, value.toFixed(2).replace(/^-(0\.00)$/, "$1"));
  const share = Math.max(0, Math.min(1, (value - least) / (1 - least || 1)));
  node.style.setProperty("--share", `${Math.round(share * 100)}%`);
  if (share > 0.55) node.classList.add("strong");
  return node;
}

function matrix(texts, vectors) {
  const values = vectors.map((a) => vectors.map((b) => alike(a, b)));
  const least = Math.min(0.9, ...values.flat());
  const numbers = texts.map((_, at) => el("th", {scope: "col", title: texts[at]}, String(at + 1)));
  const rows = texts.map((text, row) => el("tr", {}, el("th", {scope: "row"}, el("span.number", {}, String(row + 1)), el("span", {}, text)),
    values[row].map((value, column) => cell(value, least, row === column))));
  return [values, el("div.table.matrix", {tabindex: "0", role: "region", "aria-label": "Similarity of each pair of texts"},
    el("table", {}, el("caption.unseen", {}, "Cosine similarity; 1 means equal"),
      el("thead", {}, el("tr", {}, el("td"), numbers)), el("tbody", {}, rows)))];
}

function nearest(texts, values) {
  const pairs = [];
  for (let a = 0; a < texts.length; a++) for (let b = a + 1; b < texts.length; b++) pairs.push([values[a][b], texts[a], texts[b]]);
  pairs.sort((x, y) => y[0] - x[0]);
  return el("section.pairs", {}, el("h2", {}, "Most similar"), el("ol", {}, pairs.slice(0, 3).map(([value, a, b]) =>
    el("li", {}, el("span.number.big", {}, value.toFixed(2)), el("span", {}, a), el("span", {}, b)))));
}

function ask(model) {
  const input = linesOf(find("#embeddings-text").value);
  if (input.length < 2 || input.length > MOST) return {fault: `Write 2 to ${MOST} texts, one per line; there are ${input.length}.`};
  return {body: {model, input}};
}

function show(answer, {input}) {
  const vectors = answer.data.map((each) => each.embedding);
  const [values, table] = matrix(input, vectors);
  return [table, nearest(input, values),
    el("p.note", {role: "status"}, `${input.length} vectors of ${vectors[0].length} numbers from ${answer.usage.prompt_tokens} tokens`)];
}

export function embeddingsOpen(panel) {
  return formOpen(panel, {name: "embeddings", title: "Embeddings", kind: "embedder", path: "/v1/embeddings", go: "Compare", ask, show,
    hint: "The table shows the cosine of each pair of vectors.",
    missing: "This server has no embedder. Start weft with one, for example: weft serve models/weft-demo-embed",
    recorded: (answer) => ({...answer, data: answer.data.map((each) => ({...each, embedding: each.embedding.slice(0, 4).concat("…")}))}),
    fields: el("label.field", {}, el("span", {}, "Texts, one per line"), el("textarea", {id: "embeddings-text", rows: "7", value: EXAMPLE.join("\n")}))});
}
