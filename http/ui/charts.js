// SPDX-License-Identifier: Apache-2.0
// A small line chart of the last readings: title, current value, one or two lines over the same time. The value is
// text next to the picture, for readers who cannot see the picture.
import {el, svg} from "./dom.js";

const POINTS = 60; // number of readings kept
const WIDTH = 360, HEIGHT = 96;

// Returns the smallest 1, 2 or 5 times a power of ten that is at least the value.
function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value * 0.999) || value;
}

function path(points, top) {
  let out = "", pen = false;
  points.forEach((value, at) => {
    if (value === null) { pen = false; return; }
    const x = WIDTH - (points.length - 1 - at) * (WIDTH / (POINTS - 1)), y = HEIGHT - Math.min(1, value / top) * HEIGHT;
    out += `${pen ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
    pen = true;
  });
  return out;
}

// Dots for values without a neighbour, which a line would not show.
const alone = (points) => points.map((value, at) => ((points[at - 1] ?? null) === null && (points[at + 1] ?? null) === null ? value : null));
const dots = (points, top) => path(alone(points), top).replaceAll(/M[^M]+/g, "$&h0");

const area = (line, points) => (line && !points.includes(null)
  ? `${line}V${HEIGHT}H${(WIDTH - (points.length - 1) * (WIDTH / (POINTS - 1))).toFixed(1)}Z` : "");

// {title, unit, lines: [name...], least: smallest top of the scale, top: fixed top, format: formats a number}
export function chart({title, unit, lines, least = 1, top = 0, format}) {
  const series = lines.map(() => []);
  const strokes = lines.map((_, at) => svg("path", {class: `line line-${at}`, fill: "none", "vector-effect": "non-scaling-stroke"}));
  const spots = lines.map((_, at) => svg("path", {class: `line dots line-${at}`, fill: "none", "vector-effect": "non-scaling-stroke"}));
  const fill = svg("path", {class: "area"});
  const scale = el("span.scale.number", {"aria-hidden": "true"});
  const now = el("p.now"), words = lines.map(() => el("span.number"));
  now.append(...lines.map((name, at) => el(`span.value.value-${at}`, {}, words[at], el("small", {}, name))));
  const picture = svg("svg", {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true"},
    svg("path", {class: "rule", d: `M0 0.5H${WIDTH}M0 ${HEIGHT / 2}H${WIDTH}M0 ${HEIGHT - 0.5}H${WIDTH}`, "vector-effect": "non-scaling-stroke"}), fill, ...strokes, ...spots);
  const node = el("figure.chart", {}, el("figcaption", {}, el("h2", {}, title), now), el("div.plot", {}, picture, scale));
  return {node, push: (values) => {
    values.forEach((value, at) => {
      series[at].push(value);
      if (series[at].length > POINTS) series[at].shift();
      const last = series[at].findLast((each) => each !== null) ?? null;
      words[at].textContent = last === null ? "–" : format(last);
      words[at].classList.toggle("old", value === null);
    });
    const most = top || ceiling(Math.max(least, ...series.flat().filter((value) => value !== null)));
    scale.textContent = `${format(most)} ${unit}`;
    strokes.forEach((stroke, at) => stroke.setAttribute("d", path(series[at], most)));
    spots.forEach((spot, at) => spot.setAttribute("d", dots(series[at], most)));
    fill.setAttribute("d", area(strokes[0].getAttribute("d"), series[0]));
    node.dataset.points = String(series[0].length);
  }};
}
