// SPDX-License-Identifier: Apache-2.0
// Creates and finds elements. Text becomes text nodes only: nothing on this page parses markup.

export const find = (selector, from = document) => from.querySelector(selector);

const NAMESPACE = "http://www.w3.org/2000/svg";

function fill(node, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "selected") node[name] = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

// el("button.primary.wide", {onclick}, "Text", otherNode)
export function el(what, properties = {}, ...children) {
  const [tag, ...classes] = what.split(".");
  const node = document.createElement(tag || "div");
  if (classes.length) node.className = classes.join(" ");
  return fill(node, properties, children);
}

export function svg(tag, properties = {}, ...children) {
  return fill(document.createElementNS(NAMESPACE, tag), properties, children);
}

export function options(select, values, chosen) {
  select.replaceChildren(...values.map((value) => {
    const [id, label] = Array.isArray(value) ? value : [value, value];
    return el("option", {value: id, selected: id === chosen}, label);
  }));
}

// A page loaded over plain HTTP from another machine has no clipboard API: there the text is selected and copied.
function selectionCopy(text, button) {
  const area = el("textarea.unseen", {value: text, "aria-hidden": "true"});
  button.after(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  button.focus();
  if (!done) throw new Error("not allowed");
}

const pressed = new WeakMap(); // original label of a button, and the timer that restores it

export async function copy(text, button) {
  const {label, timer} = pressed.get(button) || {label: button.textContent};
  clearTimeout(timer);
  try {
    if (navigator.clipboard) await navigator.clipboard.writeText(text);
    else selectionCopy(text, button);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not allowed by the browser";
  }
  pressed.set(button, {label, timer: setTimeout(() => { button.textContent = label; }, 1600)});
}

// "1.5 MiB" and the like.
export function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  for (; count >= 1024 && at < units.length - 1; at++) count /= 1024;
  return `${at === 0 || count >= 100 ? Math.round(count) : count.toFixed(count >= 10 ? 1 : 2)} ${units[at]}`;
}
