// SPDX-License-Identifier: Apache-2.0
// Inline markdown as DOM nodes: code, strong, emphasis, strikethrough, links. Links lead to http, https and mailto
// only. An image becomes a link, so that the page fetches nothing because a model wrote it.
import {el} from "./dom.js";

const SCHEMES = new Set(["http:", "https:", "mailto:"]);

function address(text) {
  try {
    const url = new URL(text);
    return SCHEMES.has(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

function link(label, target) {
  const href = address(target);
  if (!href) return el("span", {}, label);
  return el("a", {href, target: "_blank", rel: "noopener noreferrer nofollow"}, label);
}

const ENTITIES = {amp: "&", lt: "<", gt: ">", quot: '"', nbsp: "\u00a0", "#39": "'"};

// Each rule: its pattern, and the node for a match. The first match in the text wins.
const RULES = [
  [/(`+)([^`]|[^`].*?[^`])\1(?!`)/s, (m) => el("code", {}, /^ .*\S.* $/s.test(m[2]) ? m[2].slice(1, -1) : m[2])],
  [/\\([\\`*_{}[\]()#+\-.!|~<>])/, (m) => m[1]],
  [/!?\[([^\]\n]*)\]\(\s*<?([^\s)>]+)>?(?:\s+"[^"]*")?\s*\)/, (m) => link([m[1]], m[2])],
  [/<?(https?:\/\/[^\s<>"'`]*[^\s<>"'`.,;:!?)\]])>?/, (m) => link([m[1]], m[1])],
  [/(\*\*|__)(?=\S)(.+?\S|\S)\1/s, (m) => el("strong", {}, inline(m[2]))],
  [/~~(?=\S)(.+?)~~/s, (m) => el("del", {}, inline(m[1]))],
  [/\*(?=\S)([^*]*[^*\s])\*/s, (m) => el("em", {}, inline(m[1]))],
  [/(?<![\w_])_(?=\S)([^_]*[^_\s])_(?![\w_])/s, (m) => el("em", {}, inline(m[1]))],
  [/(?<! ) {2,}\n/, () => el("br")],
  [/&(amp|lt|gt|quot|nbsp|#39);/, (m) => ENTITIES[m[1]]],
];

const PIECE = 4000; // characters per piece: the time of a match may grow with the square of the length

export function inline(text) {
  const out = [];
  for (let at = 0; at < text.length; at += PIECE) piece(text.slice(at, at + PIECE), out);
  return out;
}

function piece(text, out) {
  const found = RULES.map(([pattern]) => pattern.exec(text));
  let rest = text, passed = 0;
  while (rest) {
    let best = -1;
    found.forEach((match, rule) => {
      if (match && (best < 0 || match.index < found[best].index)) best = rule;
    });
    if (best < 0) break;
    const match = found[best], start = match.index - passed;
    if (start > 0) out.push(rest.slice(0, start));
    out.push(RULES[best][1](match));
    passed = match.index + match[0].length;
    rest = text.slice(passed);
    found.forEach((old, rule) => {
      if (old && old.index < passed) found[rule] = later(RULES[rule][0], text, passed);
    });
  }
  if (rest) out.push(rest);
}

// Returns the next match from `from` on, with its position in the complete text.
function later(pattern, text, from) {
  const again = new RegExp(pattern.source, pattern.flags + "g");
  again.lastIndex = from;
  return again.exec(text);
}
