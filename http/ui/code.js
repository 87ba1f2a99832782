// SPDX-License-Identifier: Apache-2.0
// A code block with its language, a copy button and simple highlighting: comments, strings, numbers and the keywords
// that most languages share.
import {copy, el} from "./dom.js";

const WORDS = new Set(("abstract and as assert async await bool boolean break case catch char class const continue def default " +
  "del do double elif else enum except export extends false finally float fn for from func function global go if impl " +
  "implements import in include instanceof int interface is lambda let long match mod mut namespace new nil none not null " +
  "or package pass private protected pub public raise return self short signed sizeof static struct super switch this " +
  "throw throws trait true try type typedef typeof undefined union unsigned use using var virtual void volatile where " +
  "while with yield None True False").split(" "));

const HASH = new Set(["python", "py", "sh", "bash", "shell", "ruby", "rb", "yaml", "yml", "toml", "make", "r", "perl"]);
const LONGEST = 40000; // most characters that are highlighted

function pattern(language) {
  const comment = HASH.has(language) ? "#[^\\n]*" : "\\/\\/[^\\n]*|\\/\\*[\\s\\S]*?(?:\\*\\/|$)";
  return new RegExp(`(${comment})|("(?:\\\\.|[^"\\\\\\n])*"?|'(?:\\\\.|[^'\\\\\\n])*'?|\`(?:\\\\.|[^\`\\\\])*\`?)` +
    "|(\\b\\d[\\w.]*\\b)|([A-Za-z_$][\\w$]*)", "g");
}

export function coloured(text, language) {
  if (text.length > LONGEST || ["text", "txt", "plain", "markdown", "md"].includes(language)) return [text];
  const out = [];
  let at = 0;
  for (const match of text.matchAll(pattern(language))) {
    const kind = match[1] ? "c" : match[2] ? "s" : match[3] ? "n" : WORDS.has(match[4]) ? "k" : "";
    if (!kind) continue;
    out.push(text.slice(at, match.index), el(`span.tok-${kind}`, {}, match[0]));
    at = match.index + match[0].length;
  }
  out.push(text.slice(at));
  return out;
}

export function codeBlock(text, language = "") {
  const button = el("button.quiet", {type: "button", onclick: () => copy(text, button)}, "Copy");
  const name = /^[\w+#.-]{1,20}$/.test(language) ? language : "";
  return el("figure.code", {},
    el("figcaption", {}, el("span", {}, name || "text"), button),
    el("pre", {tabindex: "0", role: "region", "aria-label": `Code${name ? " in " + name : ""}`},
      el("code", {}, coloured(text, name.toLowerCase()))));
}
