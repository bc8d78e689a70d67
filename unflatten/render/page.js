"use strict";
// The page: what is open, what is chosen, and drawing the part of it that is seen. Names are only ever text.

const started = performance.now();
const by = (id) => document.getElementById(id);
const data = JSON.parse(by("data").textContent);
const text = (at) => data.text[at];
const FIRST = 30, MOST = 6000, HITS = 200;

const pairs = (flat) => {
  const found = [];
  for (let at = 0; at < flat.length; at += 2) found.push([text(flat[at]), text(flat[at + 1])]);
  return found;
};
const nodes = data.nodes.map((row, id) => ({
  id, isNode: true, name: text(row[0]), op: text(row[1]), parent: row[2], value: text(row[3]),
  kind: text(row[4]), phase: text(row[5]), target: text(row[6]), details: row[7], into: [], from: [],
}));
const clusters = data.clusters.map((row, at) => ({
  id: nodes.length + at, parent: row[0], name: text(row[1]), path: text(row[2]), type: text(row[3]), title: text(row[4]),
  phase: text(row[5]), count: row[6], details: row[7], loose: row[8] === 1,
  items: [], inside: [], strands: new Map(), through: new Map(), depth: 0, laid: null,
}));
const thing = (id) => (id < nodes.length ? nodes[id] : clusters[id - nodes.length]);
const parentOf = (it) => (it.parent < 0 ? null : clusters[it.parent]);

for (const cluster of clusters.slice(1)) {
  const parent = parentOf(cluster);
  cluster.depth = parent.depth + 1;
  parent.inside.push(cluster);
}
for (const node of nodes) parentOf(node).items.push(node);
for (const cluster of clusters) {
  cluster.only = cluster.items.length === 1 && !cluster.inside.length && cluster.parent >= 0 ? cluster.items[0] : null;
}
for (const cluster of clusters) cluster.items.push(...cluster.inside);
for (const cluster of clusters) cluster.items.sort((a, b) => firstOf(a) - firstOf(b)).forEach((item, at) => (item.at = at));

function firstOf(it) {
  if (it.isNode) return it.id;
  if (it.first === undefined) it.first = it.items.length ? Math.min(...it.items.filter((item) => item.isNode).map((n) => n.id), ...it.inside.map(firstOf)) : nodes.length;
  return it.first;
}

for (let at = 0; at < data.edges.length; at += 3) {
  const source = nodes[data.edges[at]], target = nodes[data.edges[at + 1]], late = data.edges[at + 2] === 1;
  const saved = source.phase !== target.phase && !source.kind.endsWith("put") && !target.kind.endsWith("put");
  source.into.push(target);
  target.from.push(source);
  addStrands(source, target, late, saved);
}

// What is seen: sizes and places.
const open = new Set([clusters[0]]);
const pen = document.createElement("canvas").getContext("2d");
const widths = new Map();
function widthOf(words, font) {
  const key = font + words;
  if (!widths.has(key)) {
    pen.font = font;
    widths.set(key, pen.measureText(words).width);
  }
  return widths.get(key);
}
const FACE = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif";
const short = (words, most = 42) => (words.length > most ? words.slice(0, most / 2) + "\u2026" + words.slice(1 - most / 2) : words);

function labelsOf(it) {
  if (it.isNode) return [short(it.op), short(it.value)];
  if (it.only) return [short(it.title), short(`${it.only.op} ${it.only.value}`)];
  return [short(it.title), `${it.count.toLocaleString("en")} nodes`];
}
function sizeOf(it) {
  if (!it.isNode && open.has(it) && !it.only) return laidOut(it);
  if (!it.size) {
    const [first, second] = labelsOf(it);
    const w = Math.max(widthOf(first, `600 12px ${FACE}`), widthOf(second, `400 10.5px ${FACE}`));
    it.size = { w: Math.max(54, w + 22), h: second ? 38 : 26 };
  }
  return it.size;
}
function laidOut(cluster) {
  if (!cluster.laid) {
    const lines = linesOf(cluster); // before what is inside is laid out: its frames have to know what passes
    const found = layout(cluster.items.map(sizeOf), lines);
    found.w = Math.max(found.w, 54, widthOf(short(cluster.title), `600 12px ${FACE}`) + 2 * PAD);
    cluster.laid = found;
  }
  return cluster.laid;
}
function forget(cluster) {
  for (let at = cluster; at; at = parentOf(at)) at.laid = null;
  if (cluster.loose) for (const other of clusters) if (other.loose) for (let at = other; at && at.laid; at = parentOf(at)) at.laid = null;
}

let seen = { frames: [], boxes: [], lines: [], place: new Map() };
function look() {
  seen = { frames: [], boxes: [], lines: [], place: new Map() };
  const stack = [[clusters[0], 0, 0]];
  while (stack.length) {
    const [it, x, y] = stack.pop();
    const { w, h } = sizeOf(it);
    const place = { it, x, y, w, h };
    seen.place.set(it, place);
    if (it.isNode || it.only || !open.has(it)) {
      seen.boxes.push(place);
      continue;
    }
    seen.frames.push(place);
    const laid = laidOut(it);
    for (let at = it.items.length - 1; at >= 0; at--) stack.push([it.items[at], x + laid.places[at].x, y + laid.places[at].y]);
    for (const line of laid.lines) seen.lines.push({ line, x, y, box: [x, y, x + laid.w, y + laid.h] });
  }
}

// Drawing: only what is in sight, and a margin.
const SVG = "http://www.w3.org/2000/svg";
const stage = by("stage"), view = { x: 0, y: 0, scale: 1 };
let chosen = null, lit = new Set(), drawn = null, touched = false;

function element(name, attributes, words) {
  const made = document.createElementNS(SVG, name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (words !== undefined) made.textContent = words;
  return made;
}
function sight(margin) {
  const w = stage.clientWidth / view.scale, h = stage.clientHeight / view.scale, x = -view.x / view.scale, y = -view.y / view.scale;
  return [x - w * margin, y - h * margin, x + w + w * margin, y + h + h * margin];
}
const meets = (a, b) => a[0] <= b[2] && b[0] <= a[2] && a[1] <= b[3] && b[1] <= a[3];
const boundsOf = (place) => [place.x, place.y, place.x + place.w, place.y + place.h];

function frame({ it, x, y, w, h }) {
  const phased = clusters.some((other) => other.phase === "backward");
  const made = element("g", { class: `frame ${it.phase} ${it.depth % 2 ? "odd" : ""} ${phased ? "phased" : ""} ${it.parent < 0 ? "root" : ""} ${it === chosen ? "chosen" : ""}`, "data-id": it.id });
  made.append(element("rect", { x, y, width: w, height: h, rx: 8 }));
  if (it.parent >= 0) made.append(element("text", { x: x + 10, y: y + 17 }, short(it.title)));
  return made;
}
function box({ it, x, y, w, h }) {
  const node = it.isNode ? it : it.only, corner = it.phase === "backward" ? 0 : 8;
  const kind = node ? node.kind : "module";
  const made = element("g", { class: `box ${it.phase || "plain"} ${kind} ${it === chosen ? "chosen" : ""}`, "data-id": it.id, "data-name": it.isNode ? it.name : it.path });
  if (kind === "module") made.append(element("rect", { class: "under", x, y, width: w, height: h, rx: corner }));
  made.append(element("rect", { x, y, width: w, height: h, rx: kind === "input" || kind === "output" ? h / 2 : corner }));
  if (view.scale > 0.18) {
    const [first, second] = labelsOf(it);
    made.append(element("text", { x: x + w / 2, y: y + (second ? 16 : 17) }, first));
    if (second) made.append(element("text", { x: x + w / 2, y: y + 30 }, second));
  }
  return made;
}
function draw() {
  const area = sight(0.6);
  drawn = { area, scale: view.scale };
  const shown = (places) => places.filter((place) => meets(boundsOf(place), area));
  by("frames").replaceChildren(...shown(seen.frames).map(frame));
  by("boxes").replaceChildren(...shown(seen.boxes).map(box));
  const normal = [], marked = [];
  for (const { line, x, y, box: bounds } of seen.lines) {
    if (!meets(bounds, area)) continue;
    const ys = line.points.map((point) => point[1]), xs = line.points.map((point) => point[0]);
    if (!meets([x + Math.min(...xs), y + Math.min(...ys), x + Math.max(...xs), y + Math.max(...ys)], area)) continue;
    const isLit = lit.has(line.key);
    (isLit ? marked : normal).push(element("path", { class: `line ${line.late ? "late" : ""} ${line.saved ? "saved" : ""} ${line.passes ? "passes" : ""} ${isLit ? "lit" : ""}`, d: pathOf(line.points, x, y) }));
  }
  by("lines").replaceChildren(...normal, ...marked);
}
let waiting = false;
function move(always) {
  by("view").setAttribute("transform", `translate(${view.x},${view.y}) scale(${view.scale})`);
  const now = sight(0.05);
  const stale = !drawn || always || view.scale / drawn.scale > 1.5 || view.scale / drawn.scale < 0.67 || now.some((edge, at) => (at < 2 ? edge < drawn.area[at] : edge > drawn.area[at]));
  if (stale && !waiting) {
    waiting = true;
    requestAnimationFrame(() => ((waiting = false), draw()));
  }
}
function fit(place, most = 1) {
  const to = place || seen.place.get(clusters[0]);
  const scale = Math.min(most, (stage.clientWidth - 40) / to.w, (stage.clientHeight - 40) / to.h);
  view.scale = Math.max(0.02, scale);
  centre(to);
}
// The start: all of it where that can be read, else its top.
function begin() {
  const all = seen.place.get(clusters[0]);
  fit(all);
  if (view.scale >= 0.8) return;
  view.scale = Math.max(0.8, Math.min(1, (stage.clientWidth - 40) / all.w));
  view.x = stage.clientWidth / 2 - (all.x + (clusters[0].laid.places[0].x + sizeOf(clusters[0].items[0]).w / 2)) * view.scale;
  if (all.w * view.scale < stage.clientWidth) view.x = (stage.clientWidth - all.w * view.scale) / 2;
  view.y = 10;
  move(true);
}
function centre(place) {
  view.x = stage.clientWidth / 2 - (place.x + place.w / 2) * view.scale;
  view.y = place.h * view.scale > stage.clientHeight ? 20 - place.y * view.scale : stage.clientHeight / 2 - (place.y + place.h / 2) * view.scale;
  move(true);
}
function zoom(factor, x = stage.clientWidth / 2, y = stage.clientHeight / 2) {
  const scale = Math.min(4, Math.max(0.02, view.scale * factor));
  view.x = x - ((x - view.x) * scale) / view.scale;
  view.y = y - ((y - view.y) * scale) / view.scale;
  view.scale = scale;
  move(false);
}

// Opening and closing. What was clicked stays where it is.
function refresh(anchor) {
  const before = anchor && seen.place.get(anchor);
  look();
  const after = anchor && seen.place.get(anchor);
  if (before && after) {
    view.x += (before.x + before.w / 2 - after.x - after.w / 2) * view.scale;
    view.y += (before.y - after.y) * view.scale;
  }
  light();
  move(true);
}
function toggle(cluster) {
  if (cluster.only || cluster.parent < 0) return;
  if (!open.delete(cluster)) open.add(cluster);
  forget(cluster);
  refresh(cluster);
  showTree();
}
function openUpTo(most) {
  let count = clusters[0].items.length;
  const queue = [...clusters[0].inside];
  while (queue.length) {
    const cluster = queue.shift();
    if (!cluster.only && count + cluster.items.length <= most) {
      count += cluster.items.length;
      open.add(cluster);
      queue.push(...cluster.inside);
    }
  }
  for (const cluster of clusters) cluster.laid = null;
}
function closeAll() {
  open.clear();
  open.add(clusters[0]);
  for (const cluster of clusters) cluster.laid = null;
}
function visible(it) {
  let found = it;
  for (let at = parentOf(it); at; at = parentOf(at)) if (!open.has(at) || at.only) found = at;
  return found;
}
function reveal(it) {
  for (let at = parentOf(it); at; at = parentOf(at)) {
    if (!open.has(at) && !at.only) open.add(at);
    forget(at);
  }
  look();
  choose(visible(it));
  showTree();
  view.scale = Math.max(view.scale, 0.7);
  centre(seen.place.get(chosen));
}
