// SPDX-License-Identifier: Apache-2.0
// Token probabilities of an answer: each token is a button, tinted by its probability; the selected one shows the
// alternatives. Arrow keys move from token to token.
import {el} from "./dom.js";

const percent = (logprob) => Math.exp(Math.min(0, logprob)) * 100;
const shown = (value) => (value >= 99.95 ? "100 %" : value < 0.01 ? "under 0.01 %" : `${value.toFixed(value < 10 ? 2 : 1)} %`);
const visible = (text) => text.replaceAll("\n", "↵").replaceAll("\t", "⇥").replace(/^ | $/g, "·") || "∅";

// Returns the part of a streamed token that is kept.
export function tokenOf(each) {
  return {text: each.token, logprob: each.logprob, top: (each.top_logprobs || []).map((top) => [top.token, top.logprob])};
}

const tint = (value) => (value > 90 ? "sure" : value > 60 ? "likely" : value > 25 ? "open" : "rare");

function detailFill(detail, token) {
  const rows = token.top.some(([text]) => text === token.text) ? token.top : [[token.text, token.logprob], ...token.top];
  detail.replaceChildren(...rows.map(([text, logprob]) => {
    const bar = el("span.meter-fill");
    bar.style.setProperty("--share", `${percent(logprob)}%`);
    return el("li", {"aria-current": text === token.text ? "true" : null}, el("code", {}, visible(text)),
      el("span.meter", {"aria-hidden": "true"}, bar), el("span.number", {}, shown(percent(logprob))));
  }));
}

const STEPS = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10, Home: -Infinity, End: Infinity};

function tokenButton(token, detail, buttons) {
  const value = percent(token.logprob);
  const button = el(`button.token.${tint(value)}`, {type: "button", tabindex: buttons.length ? "-1" : "0",
    "aria-label": `${visible(token.text)}, ${shown(value)}`,
    onclick: () => button.focus(),
    onmouseenter: () => detailFill(detail, token),
    onfocus: () => {
      for (const other of buttons) other.tabIndex = other === button ? 0 : -1;
      detailFill(detail, token);
    }}, visible(token.text));
  buttons.push(button);
  return token.text.includes("\n") ? [button, el("br")] : [button];
}

export function tokensView(tokens) {
  const detail = el("ul.token-detail", {"aria-label": "Candidates for the selected token"});
  const buttons = [];
  const strip = el("div.token-strip", {role: "group", "aria-label": "Tokens with their probabilities", onkeydown: (event) => {
    const step = STEPS[event.key];
    if (!step) return;
    event.preventDefault();
    const to = buttons.indexOf(document.activeElement) + step;
    buttons[Math.max(0, Math.min(buttons.length - 1, to))].focus();
  }}, tokens.map((token) => tokenButton(token, detail, buttons)));
  if (tokens.length) detailFill(detail, tokens[0]);
  return el("div.tokens", {}, strip, detail);
}
