// SPDX-License-Identifier: Apache-2.0
// Parses Prometheus text: the numbers of one model in /metrics, and differences between two readings.
import {getText} from "./api.js";

const SAMPLE = /^([\w:]+)(?:\{(.*)\})? (\S+)$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;
const unescaped = (text) => text.replace(/\\(.)/g, (_, c) => (c === "n" ? "\n" : c));

// Returns the current samples of these families: {name, labels, value}.
export async function samples(families) {
  const out = [];
  const text = await getText(`/metrics?${families.map((name) => `name[]=${name}`).join("&")}`);
  for (const line of text.split("\n")) {
    const match = SAMPLE.exec(line);
    if (!match) continue;
    const labels = {};
    for (const [, name, value] of (match[2] || "").matchAll(LABEL)) labels[name] = unescaped(value);
    out.push({name: match[1], labels, value: Number(match[3])});
  }
  return out;
}

// Returns {at, values: Map of "name" or "name|le" to a sum} of these families of one model.
export async function reading(families, model) {
  const values = new Map();
  for (const {name, labels, value: count} of await samples(families)) {
    if (labels.model_name !== model) continue;
    const key = labels.le === undefined ? name : `${name}|${labels.le}`;
    values.set(key, (values.get(key) || 0) + count);
  }
  return {at: performance.now(), values};
}

export const value = (now, name) => now.values.get(name) ?? 0;

export function difference(before, now, name) {
  const more = value(now, name) - value(before, name);
  return more >= 0 ? more : 0; // the server was restarted
}

export function rate(before, now, name) {
  const seconds = (now.at - before.at) / 1000;
  return seconds > 0 ? difference(before, now, name) / seconds : 0;
}

// Returns the quantile of a histogram's observations between two readings, interpolated in buckets; null if there are none.
export function quantile(before, now, name, share) {
  const prefix = `${name}_bucket|`;
  const edges = [...now.values.keys()].filter((key) => key.startsWith(prefix))
    .map((key) => [key.slice(prefix.length) === "+Inf" ? Infinity : Number(key.slice(prefix.length)), difference(before, now, key)])
    .sort((a, b) => a[0] - b[0]);
  const total = edges.length ? edges.at(-1)[1] : 0;
  if (!total) return null;
  let low = 0, under = 0;
  for (const [edge, count] of edges) {
    if (count >= share * total) {
      if (edge === Infinity) return low;
      return low + (edge - low) * (count > under ? (share * total - under) / (count - under) : 1);
    }
    low = edge;
    under = count;
  }
  return low;
}

export function mean(before, now, name) {
  const count = difference(before, now, `${name}_count`);
  return count > 0 ? difference(before, now, `${name}_sum`) / count : null;
}
