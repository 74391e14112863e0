// The pieces that several views have in common.
import {h} from "./dom.js";
import * as format from "./format.js";

export const sum = (values) => values.reduce((all, value) => all + (value ?? 0), 0);
export const isLive = (job) => job.state === "running" || job.state === "waiting";
const marks = {running: "▶", waiting: "◔", ended: "■", failed: "✕"};

// In the order of a step. The explanations stand in the legend.
const parts = [
  ["compute", "Compute", "the workers compute, the server is idle for this job"],
  ["push", "Push", "from the first push until the median worker has pushed all; the backward pass overlaps it"],
  ["wait", "Wait for the slowest", "from there until the slowest worker has pushed all"],
  ["racks", "Wait for other racks", "from there until their sums and replies are here; this rack's own sums are made meanwhile"],
  ["aggregate", "Aggregate", "from there until the last chunk is summed and updated"],
  ["reply", "Reply", "from there until the last reply is sent"],
];

export const partsOf = (timing) => parts.filter(([key]) => key !== "racks" || timing.racks.length > 0);

// Of this server's rack: those that are there, and how many there are to be.
export const workersOf = (job) => job.members.filter((member) => !member.rack);
export const workersHere = (job) => workersOf(job).filter((member) => !member.left).length;
export const workersDue = ({spec, rack}) => spec.racks.find(({name}) => name === rack)?.workers ?? spec.workers;

// One colour for a job wherever it is drawn; six, then again.
export const hue = (id) => `job-${id % 6}`;

export function bar(segments, label) {
  return h("div", {class: "bar", role: "img", "aria-label": label}, segments.map(({key, kind, value, title}) =>
    h("span", {class: `segment ${kind}`, "data-key": key, title, style: {width: `${(100 * value).toFixed(2)}%`}})));
}

export function stateCell(job) {
  return h("span", {class: `state ${job.state}`}, h("span", {"aria-hidden": "true"}, marks[job.state]), ` ${job.state}`);
}

export function roundBar(job) {
  const {timing} = job;
  if (!timing || timing.round_seconds <= 0) return h("span", {class: "dim"}, "–");
  const shares = partsOf(timing).map(([key, name]) => ({
    key, kind: key, value: timing[`${key}_seconds`] / timing.round_seconds, title: name,
  }));
  const text = shares.map(({title, value}) => `${title} ${format.share(value)}`).join(", ");
  return bar(shares, text);
}

// Curves of `points`, each {at, ...}, over their time: one for each of `names`, the highest of all at
// the top.
export function curves(points, names, most, label) {
  const from = points[0].at;
  const long = Math.max(points.at(-1).at - from, 1);
  const places = (name) => points.map((point) =>
    `${(100 * (point.at - from) / long).toFixed(1)},${(30 - 28 * point[name] / Math.max(most, 1e-9)).toFixed(1)}`).join(" ");
  return h("svg", {class: "curve", viewBox: "0 0 100 30", preserveAspectRatio: "none", role: "img", "aria-label": label},
    names.map((name) => h("polyline", {class: name, points: places(name), "vector-effect": "non-scaling-stroke"})));
}

// How long ago the first of them was.
export const sinceFirst = (points) => format.age((performance.now() - points[0].at) / 1000);

// A sentence, in which `words` between backquotes are what can be typed.
export const prose = (text) => `${text[0].toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`
  .split("`").map((part, index) => (index % 2 === 1 ? h("code", {}, part) : part));
