"use strict";
// Around the graph: details, the tree, searching, the mouse and the keyboard.

function html(name, attributes, ...inner) {
  const made = document.createElement(name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  made.append(...inner);
  return made;
}
function* nodesIn(it) {
  if (it.isNode) yield it;
  else for (const item of it.items) yield* nodesIn(item);
}
const within = (node, it) => {
  for (let at = node; at; at = parentOf(at)) if (at === it) return true;
  return false;
};
function neighbours(it, side) {
  const found = new Set();
  for (const node of nodesIn(it)) for (const other of node[side]) if (!within(other, it)) found.add(other);
  return [...found];
}

// Marks the lines that lead to and from what is chosen.
function light() {
  lit = new Set();
  if (!chosen || chosen.parent < 0) return;
  let left = 4000;
  for (const node of nodesIn(chosen)) {
    for (const [source, target] of [...node.from.map((other) => [other, node]), ...node.into.map((other) => [node, other])]) {
      if (within(source, chosen) && within(target, chosen)) continue;
      if (left-- < 0) return;
      for (const [home, a, b] of strandsOf(source, target)) lit.add(lineKey(home, shownOf(home, a), shownOf(home, b)));
    }
  }
}
function choose(it) {
  chosen = it;
  light();
  move(true);
  showPanel();
  for (const row of document.querySelectorAll(".row.chosen")) row.classList.remove("chosen");
  const row = it && document.querySelector(`.row[data-id="${it.id}"]`);
  if (row) {
    row.classList.add("chosen");
    row.scrollIntoView({ block: "nearest" });
  }
}
function facts(list) {
  const made = html("dl", {});
  for (const [key, value] of list) if (value) made.append(html("dt", {}, key), html("dd", {}, value));
  return made;
}
function links(title, found) {
  if (!found.length) return "";
  const made = html("div", { class: "links" });
  for (const other of found.slice(0, 30)) {
    const button = html("button", { title: other.name }, short(other.name, 30));
    button.addEventListener("click", () => reveal(other));
    made.append(button);
  }
  if (found.length > 30) made.append(`and ${found.length - 30} more`);
  return html("div", {}, html("dt", {}, title), made);
}
function showPanel() {
  const it = chosen || clusters[0], node = it.isNode ? it : it.only;
  const inner = [html("h2", {}, it.isNode ? it.name : it.title || "graph")];
  if (!it.isNode) {
    const counts = it.only ? [] : [["nodes", it.count.toLocaleString("en")], ["modules inside", String(it.inside.length || "")]];
    inner.push(facts([["module", it.path], ["class", it.type], ["phase", it.phase], ...counts, ...pairs(it.details)]));
  }
  if (node) inner.push(facts([["node", it.isNode ? "" : node.name], ["calls", node.target], ["gives", node.value], ["kind", node.kind], ["phase", node.phase], ...pairs(node.details)]));
  if (it.parent >= 0) inner.push(links("takes", neighbours(it, "from")), links("goes to", neighbours(it, "into")));
  by("panel").replaceChildren(...inner.filter((part) => part !== ""));
}

// The tree of modules. Rows of what is closed are not made.
function rowOf(it, full) {
  const twist = it.isNode || it.only ? "" : open.has(it) ? "\u25be" : "\u25b8";
  const name = full ? (it.isNode ? it.name : it.path || it.name) : it.isNode ? it.name : it.title;
  const more = full && !it.isNode ? it.type.split(".").pop() : it.isNode ? `${it.op} ${it.value}` : "";
  const row = html("div", { class: `row${it === chosen ? " chosen" : ""}`, "data-id": it.id, tabindex: -1, title: it.isNode ? it.name : it.path },
    html("span", { class: "twist" }, twist), html("span", { class: "name" }, short(name, 60)), html("span", { class: "kind" }, short(more, 40)));
  if (full && it.phase) row.append(html("span", { class: `mark ${it.phase}`, title: it.phase }));
  if (!it.isNode) row.append(html("span", { class: "count" }, it.count.toLocaleString("en")));
  return row;
}
function showTree() {
  if (by("search").value) return;
  const grow = (cluster) => {
    const list = html("ul", { role: "group" });
    for (const inner of cluster.inside) {
      const item = html("li", { role: "treeitem", "aria-label": inner.title });
      item.append(rowOf(inner, false));
      if (inner.inside.length) {
        item.setAttribute("aria-expanded", String(open.has(inner)));
        if (open.has(inner)) item.append(grow(inner));
      }
      list.append(item);
    }
    return list;
  };
  by("found").textContent = "";
  by("tree").replaceChildren(...grow(clusters[0]).childNodes);
  reachable();
}
// One row can be reached by Tab, the others from there by arrow keys.
function reachable() {
  const row = by("tree").querySelector(".row");
  if (row) row.tabIndex = 0;
}
let hits = [];
function search() {
  const wanted = by("search").value.trim().toLowerCase();
  if (!wanted) return showTree();
  const score = (...words) => Math.min(...words.map((word) => {
    const at = word.toLowerCase().indexOf(wanted);
    return at < 0 ? Infinity : word.length === wanted.length ? 0 : at === 0 ? 1 : 2;
  }));
  const found = [];
  for (const it of clusters.slice(1)) found.push([score(it.path, it.name, it.type.split(".").pop()), it]);
  for (const it of nodes) if (it.kind !== "module") found.push([score(it.name, it.op, it.target) + 0.5, it]);
  hits = found.filter(([value]) => value < Infinity).sort((a, b) => a[0] - b[0] || a[1].id - b[1].id).map(([, it]) => it);
  by("found").textContent = `${hits.length.toLocaleString("en")} found${hits.length > HITS ? `, the first ${HITS} shown` : ""}`;
  by("tree").replaceChildren(...hits.slice(0, HITS).map((it) => html("li", { role: "treeitem" }, rowOf(it, true))));
  reachable();
}

// Moving by keys: to what feeds, to what is fed, and to what is beside.
function beside(way) {
  const from = seen.place.get(chosen);
  let best = null, least = Infinity;
  for (const place of [...seen.boxes, ...seen.frames]) {
    if (place.it === chosen || place.it.parent !== chosen.parent || place.it.parent < 0) continue;
    const dx = (place.x + place.w / 2 - from.x - from.w / 2) * (way.x || 0), dy = (place.y + place.h / 2 - from.y - from.h / 2) * (way.y || 0);
    const cross = way.x ? Math.abs(place.y + place.h / 2 - from.y - from.h / 2) : Math.abs(place.x + place.w / 2 - from.x - from.w / 2);
    const along = dx + dy;
    if (along > 1 && along + 3 * cross < least) [least, best] = [along + 3 * cross, place.it];
  }
  return best;
}
function step(way) {
  if (!chosen || chosen.parent < 0) return arrive(clusters[0].items[0]);
  const inner = way.in && open.has(chosen) && !chosen.only ? chosen.items[0] : null;
  arrive(inner || beside(way) || (way.y > 0 ? neighbours(chosen, "into") : way.y < 0 ? neighbours(chosen, "from") : []).map(visible)[0]);
}
function arrive(it) {
  if (!it) return;
  choose(it);
  const place = seen.place.get(it), area = sight(-0.05);
  if (place && !(place.x >= area[0] && place.y >= area[1] && place.x + place.w <= area[2] && place.y + place.h <= area[3])) centre(place);
}
const KEYS = {
  ArrowDown: () => step({ y: 1 }), ArrowUp: () => step({ y: -1 }), ArrowLeft: () => step({ x: -1 }), ArrowRight: () => step({ x: 1 }),
  Enter: () => chosen && !chosen.isNode && !chosen.only && (toggle(chosen), open.has(chosen) || choose(chosen)),
  Escape: () => chosen && chosen.parent > 0 && arrive(parentOf(chosen)),
  f: () => fit(), e: () => openAll(), c: () => (closeAll(), refresh(), showTree(), fit()), "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8),
  "/": () => (by("search").focus(), by("search").select()),
};
function openAll() {
  openUpTo(MOST);
  refresh();
  showTree();
  fit();
}
// Keys in the tree and in what was found: up and down, right and left to open and close, Enter to go there.
function inTree(event, row) {
  const rows = [...by("tree").querySelectorAll(".row")], it = row && thing(Number(row.dataset.id)), at = rows.indexOf(row);
  const focus = (other) => other && (other.focus(), other.scrollIntoView({ block: "nearest" }));
  const can = it && !it.isNode && !it.only && it.parent >= 0;
  if (event.key === "ArrowDown") focus(rows[at + 1]);
  else if (event.key === "ArrowUp") at ? focus(rows[at - 1]) : by("search").focus();
  else if ((event.key === "ArrowRight" && can && !open.has(it)) || (event.key === "ArrowLeft" && can && open.has(it))) {
    toggle(it);
    if (by("search").value) search();
    focus(by("tree").querySelector(`.row[data-id="${it.id}"]`));
  } else if (event.key === "Enter" && it) reveal(it), focus(by("tree").querySelector(`.row[data-id="${it.id}"]`));
  else return false;
  event.preventDefault();
  return true;
}
document.addEventListener("keydown", (event) => {
  const typing = event.target === by("search"), row = event.target.closest && event.target.closest(".row");
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if ((row || (typing && event.key === "ArrowDown")) && inTree(event, row)) return;
  if (typing && event.key === "Enter" && hits.length) (reveal(hits[0]), stage.focus());
  if (typing && event.key === "Escape") ((by("search").value = ""), showTree(), stage.focus());
  if (typing || (event.target.tagName === "BUTTON" && event.key === "Enter")) return;
  if (KEYS[event.key]) {
    event.preventDefault();
    KEYS[event.key]();
  }
});
by("search").addEventListener("input", search);
by("open-all").addEventListener("click", openAll);
by("close-all").addEventListener("click", KEYS.c);
by("fit").addEventListener("click", () => fit());
by("larger").addEventListener("click", () => zoom(1.25));
by("smaller").addEventListener("click", () => zoom(0.8));
by("tree").addEventListener("click", (event) => {
  const row = event.target.closest(".row");
  if (!row) return;
  const it = thing(Number(row.dataset.id));
  if (event.target.className === "twist" && event.target.textContent) return toggle(it);
  reveal(it);
});

let drag = null;
stage.addEventListener("pointerdown", (event) => (drag = { x: event.clientX, y: event.clientY, moved: false }));
addEventListener("pointermove", (event) => {
  if (!drag || !event.buttons) return;
  const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
  if (!drag.moved && Math.hypot(dx, dy) < 4) return;
  drag = { x: event.clientX, y: event.clientY, moved: true };
  view.x += dx;
  view.y += dy;
  move(false);
});
const under = (event) => {
  const found = event.target.closest && event.target.closest("[data-id]");
  return found ? thing(Number(found.dataset.id)) : null;
};
stage.addEventListener("click", (event) => drag && !drag.moved && choose(under(event)));
stage.addEventListener("dblclick", (event) => {
  const it = under(event);
  if (it && !it.isNode && !it.only) toggle(it);
});
stage.addEventListener("wheel", (event) => {
  event.preventDefault();
  const place = stage.getBoundingClientRect();
  if (event.ctrlKey || event.metaKey) return zoom(Math.exp(-event.deltaY / 300), event.clientX - place.x, event.clientY - place.y);
  view.x -= event.deltaX;
  view.y -= event.deltaY;
  move(false);
}, { passive: false });
addEventListener("resize", () => (touched ? move(true) : begin()));
for (const kind of ["pointerdown", "keydown", "wheel"]) addEventListener(kind, () => (touched = true), { capture: true, passive: true });

for (const phase of ["forward", "backward", "recompute"])
  if (nodes.some((node) => node.phase === phase)) by("legend").append(html("li", { class: phase }, phase));
openUpTo(FIRST);
look();
showTree();
showPanel();
begin();
requestAnimationFrame(() => {
  document.documentElement.dataset.ready = String(Math.round(performance.now() - started));
});
