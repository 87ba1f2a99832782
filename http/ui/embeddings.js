// The embeddings panel: texts, one a line, and how alike each pair of them is.
import {postJson} from "./api.js";
import {el, find, options} from "./dom.js";
import {wireBegin} from "./wire.js";

const EXAMPLE = ["The loom is warm from the morning's work.", "A weaver pulls the thread tight.", "Her loom clacks all day long.",
  "Rain is expected in the north tomorrow.", "Tomorrow the north gets showers.", "The invoice is due in thirty days.",
  "Please pay the bill within a month."];
const MOST = 40; // texts: more would be no picture

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
    el("table", {}, el("caption.unseen", {}, "Cosine similarity, 1 is the same"),
      el("thead", {}, el("tr", {}, el("td"), numbers)), el("tbody", {}, rows)))];
}

function nearest(texts, values) {
  const pairs = [];
  for (let a = 0; a < texts.length; a++) for (let b = a + 1; b < texts.length; b++) pairs.push([values[a][b], texts[a], texts[b]]);
  pairs.sort((x, y) => y[0] - x[0]);
  return el("section.pairs", {}, el("h2", {}, "Most alike"), el("ol", {}, pairs.slice(0, 3).map(([value, a, b]) =>
    el("li", {}, el("span.number.big", {}, value.toFixed(2)), el("span", {}, a), el("span", {}, b)))));
}

async function compare(event) {
  event.preventDefault();
  const out = find("#embeddings-out"), button = find("#embeddings-go");
  const texts = find("#embeddings-text").value.split("\n").map((line) => line.trim()).filter(Boolean);
  if (texts.length < 2 || texts.length > MOST) {
    out.replaceChildren(el("p.fault", {role: "alert"}, `Write 2 to ${MOST} texts, one a line: there are ${texts.length}.`));
    return;
  }
  const body = {model: find("#embeddings-model").value, input: texts};
  const wire = wireBegin("embeddings", "/v1/embeddings", body);
  button.disabled = true;
  try {
    const answer = await postJson("/v1/embeddings", body);
    wire.answer({...answer, data: answer.data.map((each) => ({...each, embedding: each.embedding.slice(0, 4).concat("…")}))});
    const vectors = answer.data.map((each) => each.embedding);
    const [values, table] = matrix(texts, vectors);
    out.replaceChildren(table, nearest(texts, values),
      el("p.note", {role: "status"}, `${texts.length} vectors of ${vectors[0].length} numbers from ${answer.usage.prompt_tokens} tokens`));
  } catch (error) {
    wire.failed(error.message);
    out.replaceChildren(el("p.fault", {role: "alert"}, error.message));
  }
  button.disabled = false;
}

export function embeddingsOpen(panel) {
  panel.append(el("div.bar", {}, el("h1", {id: "embeddings-title"}, "Embeddings"),
    el("label.pick", {}, el("span.unseen", {}, "Model for embeddings"), el("select", {id: "embeddings-model"})),
    el("button.quiet", {type: "button", "data-wire": "embeddings"}, "Request")),
  el("div.scroll", {}, el("div.sheet", {},
    el("form.ask-form", {onsubmit: compare},
      el("label.field", {}, el("span", {}, "Texts, one a line"), el("textarea", {id: "embeddings-text", rows: "7", value: EXAMPLE.join("\n")})),
      el("div.buttons.left", {}, el("button.primary", {type: "submit", id: "embeddings-go"}, "Compare"),
        el("span.hint", {}, "Each pair is shown by the cosine of its vectors."))),
    el("div.results-out", {id: "embeddings-out"}))));
  return {models: (all) => {
    const served = all.filter((model) => model.kind === "embedder").map((model) => model.id);
    options(find("#embeddings-model"), served, find("#embeddings-model").value);
    find("#embeddings-go").disabled = !served.length;
    if (!served.length) find("#embeddings-out").replaceChildren(el("p.hint", {}, "No embedder is served: start weft with one, as in 'weft serve models/weft-demo-embed'."));
  }};
}
