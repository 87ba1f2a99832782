// SPDX-License-Identifier: Apache-2.0
// Markdown blocks as DOM nodes: headings, lists, quotes, tables, code, rules, paragraphs. Other text stays as
// written; HTML in the text is text.
import {codeBlock} from "./code.js";
import {el} from "./dom.js";
import {inline} from "./inline.js";

const DEEPEST = 8; // most nested lists and quotes

// No expression here can match the same characters in two ways; otherwise a long line could freeze the page.
const FENCE = /^( {0,3})(`{3,}(?!`)|~{3,}(?!~))([^`]*)$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?: +|$)/;

const isRule = (line) => /^ {0,3}([-*_])( *\1){2,} *$/.test(line);

// Returns {level, text} without trailing marks, or null.
function heading(line) {
  const marks = /^ {0,3}(#{1,6})(?!\S)/.exec(line);
  return marks && {level: marks[1].length, text: line.slice(marks[0].length).trim().replace(/(?:^|\s)#+$/, "").trimEnd()};
}

function startsBlock(lines, at) {
  const line = lines[at];
  return !line.trim() || FENCE.test(line) || heading(line) || isRule(line) || /^ {0,3}>/.test(line) ||
    /^ {0,3}([-*+]|1[.)]) +\S/.test(line) || isTable(lines, at);
}

const cells = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim());

const isTable = (lines, at) => at + 1 < lines.length && lines[at].indexOf("|", 1) > 0 && lines[at + 1].includes("|") &&
  cells(lines[at + 1]).every((cell) => /^:?-+:?$/.test(cell));

function takeFence(lines, at, out) {
  const [, indent, fence, information] = FENCE.exec(lines[at]);
  const end = new RegExp(`^ {0,3}${fence[0] === "~" ? "~" : "`"}{${fence.length},} *$`);
  const code = [];
  for (at++; at < lines.length && !end.test(lines[at]); at++) {
    code.push(lines[at].startsWith(indent) ? lines[at].slice(indent.length) : lines[at].trimStart());
  }
  out.push(codeBlock(code.join("\n"), /^\S*/.exec(information.trim())[0]));
  return at + 1;
}

function takeQuote(lines, at, out, depth) {
  const inner = [];
  for (; at < lines.length && /^ {0,3}>/.test(lines[at]); at++) inner.push(lines[at].replace(/^ {0,3}> ?/, ""));
  out.push(el("blockquote", {}, blocks(inner, depth + 1)));
  return at;
}

function takeTable(lines, at, out) {
  const head = cells(lines[at]);
  const sides = cells(lines[at + 1]).map((rule) => (/^:-+:$/.test(rule) ? "center" : /-:$/.test(rule) ? "end" : "start"));
  const body = [];
  const cell = (tag, text, column) => el(`${tag}.${sides[column] || "start"}`, tag === "th" ? {scope: "col"} : {}, inline(text));
  for (at += 2; at < lines.length && lines[at].includes("|") && lines[at].trim(); at++) {
    const row = cells(lines[at]);
    const missing = head.length - row.length;
    body.push(el("tr", {}, row.slice(0, head.length).map((text, column) => cell("td", text, column)),
      missing > 0 && el("td", {colspan: missing})));
  }
  out.push(el("div.table", {tabindex: "0", role: "region", "aria-label": "Table"},
    el("table", {}, el("thead", {}, el("tr", {}, head.map((text, column) => cell("th", text, column)))), el("tbody", {}, body))));
  return at;
}

// Reads the lines of one item, without their indent; returns the index of the next line.
function takeItem(lines, at, indent, inner) {
  for (at++; at < lines.length; at++) {
    const line = lines[at];
    const spaces = /^ */.exec(line)[0].length;
    if (line.trim() && spaces < indent && (ITEM.test(line) || startsBlock(lines, at) || !lines[at - 1].trim())) break;
    if (!line.trim() && (at + 1 >= lines.length || /^ */.exec(lines[at + 1])[0].length < indent)) break;
    inner.push(line.slice(Math.min(spaces, indent)));
  }
  return at;
}

function takeList(lines, at, out, depth) {
  const first = ITEM.exec(lines[at]);
  const ordered = /\d/.test(first[2]);
  const items = [];
  while (at < lines.length) {
    const match = ITEM.exec(lines[at]);
    if (!match || /\d/.test(match[2]) !== ordered || match[1].length > first[1].length + 3 || isRule(lines[at])) break;
    const inner = [lines[at].slice(match[0].length).replace(/^\[([ xX])\] /, (_, mark) => (mark === " " ? "☐ " : "☑ "))];
    at = takeItem(lines, at, match[1].length + match[2].length + 1, inner);
    const nodes = blocks(inner, depth + 1);
    items.push(el("li", {}, nodes.length === 1 && nodes[0].tagName === "P" ? [...nodes[0].childNodes] : nodes));
    while (at + 1 < lines.length && !lines[at].trim() && ITEM.test(lines[at + 1])) at++;
  }
  const start = ordered ? parseInt(first[2], 10) : 1;
  out.push(el(ordered ? "ol" : "ul", {start: start !== 1 ? start : null}, items));
  return at;
}

function takeParagraph(lines, at, out) {
  const text = [lines[at]];
  for (at++; at < lines.length && !startsBlock(lines, at); at++) text.push(lines[at]);
  out.push(el("p", {}, inline(text.join("\n").trim())));
  return at;
}

function takeBlock(lines, at, out, depth) {
  const line = lines[at];
  if (!line.trim()) return at + 1;
  if (FENCE.test(line)) return takeFence(lines, at, out);
  const head = heading(line);
  if (head) {
    // headings of a text are below the page's own headings
    out.push(el(`h${Math.min(6, head.level + 2)}`, {}, inline(head.text)));
    return at + 1;
  }
  if (isRule(line)) {
    out.push(el("hr"));
    return at + 1;
  }
  if (depth < DEEPEST && /^ {0,3}>/.test(line)) return takeQuote(lines, at, out, depth);
  if (depth < DEEPEST && ITEM.test(line)) return takeList(lines, at, out, depth);
  if (isTable(lines, at)) return takeTable(lines, at, out);
  return takeParagraph(lines, at, out);
}

function blocks(lines, depth) {
  const out = [];
  for (let at = 0; at < lines.length;) at = takeBlock(lines, at, out, depth);
  return out;
}

export const markdown = (text) => blocks(text.replace(/\r\n?/g, "\n").replace(/\t/g, "    ").split("\n"), 0);
