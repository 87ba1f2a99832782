// SPDX-License-Identifier: Apache-2.0
// The last request of a panel and its answer, as sent, and the same call as curl, Python and JavaScript. The key is
// never shown: the code reads it from the environment.
import {codeBlock} from "./code.js";
import {copy, el, find} from "./dom.js";

const LINES_MAX = 4000;
const last = {}; // record of each panel

// Starts the record of a call; the caller adds lines, or the complete answer.
export function wireBegin(panel, path, body) {
  const record = {path, body, lines: [], cut: 0};
  last[panel] = record;
  return {
    line: (line) => { if (line && record.lines.length < LINES_MAX) record.lines.push(line); else if (line) record.cut++; },
    answer: (value) => { record.answer = value; },
    failed: (error) => { record.fault = error; },
  };
}

const url = (record) => location.origin + record.path;
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

export function asCurl(record) {
  return `curl ${record.body.stream ? "-N " : ""}${url(record)} \\\n  -H "Authorization: Bearer $WEFT_API_KEY" \\\n` +
    `  -H 'Content-Type: application/json' \\\n  -d ${quoted(JSON.stringify(record.body, null, 2))}\n`;
}

function pythonValue(value, indent) {
  const inner = indent + "    ";
  if (value === null || value === undefined) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value !== "object") return JSON.stringify(value);
  const list = Array.isArray(value);
  const parts = list ? value.map((each) => pythonValue(each, inner))
    : Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}: ${pythonValue(each, inner)}`);
  if (!parts.length) return list ? "[]" : "{}";
  return `${list ? "[" : "{"}\n${inner}${parts.join(`,\n${inner}`)},\n${indent}${list ? "]" : "}"}`;
}

export function asPython(record) {
  const ask = "import json, os, urllib.request\n\n" +
    `request = urllib.request.Request(\n    ${JSON.stringify(url(record))},\n` +
    `    data=json.dumps(${pythonValue(record.body, "    ")}).encode(),\n` +
    '    headers={"Authorization": "Bearer " + os.environ["WEFT_API_KEY"],\n' +
    '             "Content-Type": "application/json"})\n' +
    "try:\n    answer = urllib.request.urlopen(request)\n" +
    "except urllib.error.HTTPError as error:\n    raise SystemExit(error.read().decode())\n";
  if (!record.body.stream) return `${ask}print(json.dumps(json.load(answer), indent=2))\n`;
  return `${ask}for line in answer:\n    if line.startswith(b"data: {"):\n        for choice in json.loads(line[6:])["choices"]:\n` +
    (record.body.tools ? '            for call in choice["delta"].get("tool_calls") or []:\n' +
      '                print(call["function"].get("name") or "", end=" " if "id" in call else "")\n' +
      '                print(call["function"].get("arguments") or "", end="", flush=True)\n' : "") +
    '            print(choice["delta"].get("content") or "", end="", flush=True)\n';
}

export function asJavaScript(record) {
  const ask = `const answer = await fetch(${JSON.stringify(url(record))}, {\n  method: "POST",\n` +
    '  headers: {"Authorization": `Bearer ${process.env.WEFT_API_KEY}`, "Content-Type": "application/json"},\n' +
    `  body: JSON.stringify(${JSON.stringify(record.body, null, 2).replaceAll("\n", "\n  ")}),\n});\n` +
    "if (!answer.ok) throw new Error(await answer.text());\n";
  if (!record.body.stream) return `${ask}console.log(JSON.stringify(await answer.json(), null, 2));\n`;
  const calls = record.body.tools ? "      for (const {function: call} of choice.delta.tool_calls ?? []) {\n" +
    "        process.stdout.write((call.name ? call.name + \" \" : \"\") + (call.arguments ?? \"\"));\n      }\n" : "";
  return `${ask}let rest = "";\nfor await (const text of answer.body.pipeThrough(new TextDecoderStream())) {\n` +
    '  const lines = (rest + text).split("\\n");\n  rest = lines.pop();\n' +
    '  for (const line of lines.filter((each) => each.startsWith("data: {"))) {\n' +
    `    for (const choice of JSON.parse(line.slice(6)).choices) {\n${calls}` +
    '      process.stdout.write(choice.delta.content ?? "");\n    }\n  }\n}\n';
}

function copyButton(label, text) {
  const button = el("button", {type: "button", onclick: () => copy(text, button)}, label);
  return button;
}

function answerText(record) {
  if (record.answer) return JSON.stringify(record.answer, null, 2);
  const more = record.cut ? `… and ${record.cut} more lines` : "";
  return [...record.lines, more, record.fault].filter(Boolean).join("\n");
}

function content(record) {
  if (!record) return [el("p.hint", {}, "Nothing was sent yet. Send something; then this window shows the HTTP request and the answer.")];
  return [
    el("div.buttons.left", {}, copyButton("Copy as curl", asCurl(record)), copyButton("Copy as Python", asPython(record)),
      copyButton("Copy as JavaScript", asJavaScript(record))),
    el("p.hint", {}, "The key is not included. First run ", el("code", {}, "export WEFT_API_KEY=..."), ". The JavaScript runs in Node as a file with the ending ", el("code", {}, ".mjs"), "."),
    el("h3", {}, "Request"),
    codeBlock(`POST ${record.path}\n\n${JSON.stringify(record.body, null, 2)}`, "http"),
    el("h3", {}, record.fault && !record.lines.length ? "Error" : record.body.stream ? "Event stream" : "Answer"),
    el(record.fault ? "div.wrapped" : "div", {}, codeBlock(answerText(record) || "Nothing yet.", record.answer ? "json" : "text")),
  ];
}

export function wireShow(panel) {
  const dialog = find("#wire-dialog");
  const close = el("button.quiet", {type: "button", onclick: () => dialog.close()}, "Close");
  dialog.replaceChildren(el("div.dialog-head", {}, el("h2", {id: "wire-title"}, "Request and answer"), close), ...content(last[panel]));
  dialog.showModal();
  dialog.scrollTop = 0;
  close.focus();
}
