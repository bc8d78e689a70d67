"use strict";
// Layered drawing of one open module at a time. What is inside of it is laid out first, so that each layout is small.

const GAP_X = 18, GAP_Y = 34, PAD = 14, HEAD = 26, PORT = 8, MANY_BENDS = 3000;

// An order of layers in which all edges but those of cycles go down, below the one of what comes in.
function layersOf(count, edges, tops) {
  const out = Array.from({ length: count }, () => []);
  for (const edge of edges) out[edge.a].push(edge);
  const state = new Uint8Array(count), order = [];
  for (let start = 0; start < count; start++) {
    if (state[start]) continue;
    const stack = [[start, 0]];
    state[start] = 1;
    while (stack.length) {
      const top = stack[stack.length - 1];
      if (top[1] === out[top[0]].length) {
        state[top[0]] = 2;
        order.push(top[0]);
        stack.pop();
        continue;
      }
      const edge = out[top[0]][top[1]++];
      edge.back = edge.late || state[edge.b] === 1; // what comes from the step before goes up
      if (!state[edge.b] && !edge.late) {
        state[edge.b] = 1;
        stack.push([edge.b, 0]);
      }
    }
  }
  const layer = new Int32Array(count).fill(1);
  for (const top of tops) layer[top] = 0;
  const ends = (edge) => (edge.back ? [edge.b, edge.a] : [edge.a, edge.b]);
  for (const item of order.reverse())
    for (const edge of out[item]) if (!edge.back) layer[edge.b] = Math.max(layer[edge.b], layer[item] + 1);
  const fed = new Uint8Array(count), next = new Int32Array(count).fill(1 << 30);
  for (const edge of edges) {
    const [from, to] = ends(edge);
    fed[to] = 1;
    next[from] = Math.min(next[from], layer[to]);
  }
  // What nothing leads into is drawn close to what takes it.
  for (let item = 0; item < count; item++) if (!fed[item] && next[item] < 1 << 30) layer[item] = Math.max(layer[item], next[item] - 1);
  return layer;
}

// Places as near as possible to wanted ones, in the order that they have, without overlaps: a least squares fit.
function fitted(row, wanted, weight) {
  const blocks = [];
  let offset = 0;
  row.forEach((cell, at) => {
    if (at) offset += (row[at - 1].w + cell.w) / 2 + GAP_X;
    blocks.push({ sum: (wanted[at] - offset) * weight[at], weight: weight[at], size: 1 });
    while (blocks.length > 1) {
      const last = blocks[blocks.length - 1], before = blocks[blocks.length - 2];
      if (before.sum / before.weight <= last.sum / last.weight) break;
      blocks.splice(-2, 2, { sum: before.sum + last.sum, weight: before.weight + last.weight, size: before.size + last.size });
    }
  });
  let at = 0;
  offset = 0;
  for (const block of blocks)
    for (let i = 0; i < block.size; i++, at++) {
      if (at) offset += (row[at - 1].w + row[at].w) / 2 + GAP_X;
      row[at].x = block.sum / block.weight + offset;
    }
}

function mean(cells, fallback) {
  if (!cells.length) return fallback;
  let sum = 0;
  for (const cell of cells) sum += cell.x;
  return sum / cells.length;
}

// The ends of a frame's lines at its top and bottom, as things to lay out: one for all, and one for each that passes.
function withPorts(count, given) {
  const edges = given.filter((edge) => edge.a !== edge.b), extra = [{ w: 0, h: 0, side: "top" }, { w: 0, h: 0, side: "bottom" }];
  const port = (edge, side) => (edge.through ? count + extra.push({ w: 4, h: 0, side, key: edge.key }) - 1 : side === "top" ? count : count + 1);
  const local = edges.map((edge) => ({ ...edge, a: edge.a < 0 ? port(edge, "top") : edge.a, b: edge.b < 0 ? port(edge, "bottom") : edge.b }));
  return [edges, extra, local];
}
const portsOf = (items, side) => items.flatMap((item, at) => (item.side === side ? [at] : []));

// Which edges go up in the layout of so many items.
function rising(count, given) {
  const [edges, extra, local] = withPorts(count, given);
  const tops = portsOf(extra, "top").map((at) => count + at), bottoms = new Set(portsOf(extra, "bottom").map((at) => count + at));
  const layer = layersOf(count + extra.length, local, tops);
  const up = new Map(edges.map((edge, at) => [edge, !bottoms.has(local[at].b) && layer[local[at].a] > layer[local[at].b]]));
  return given.map((edge) => Boolean(up.get(edge)));
}

// Rows of cells: one for each item, and one for each bend of an edge that skips rows.
function rowsOf(items, edges) {
  const layer = layersOf(items.length, edges, portsOf(items, "top"));
  for (const side of ["top", "bottom"]) for (const port of portsOf(items, side)) layer[port] = 0;
  const last = layer.reduce((most, row) => Math.max(most, row), 0) + 1;
  for (const port of portsOf(items, "bottom")) layer[port] = last;
  const rows = [];
  const put = (cell) => {
    while (rows.length <= cell.row) rows.push([]);
    cell.x = rows[cell.row].length;
    rows[cell.row].push(cell);
    return cell;
  };
  const cells = items.map((item, at) => put({ w: item.w, h: item.h, enter: item.enter, leave: item.leave, ports: item.ports, side: item.side, row: layer[at], up: [], down: [] }));
  const link = (above, below) => (above.down.push(below), below.up.push(above));
  let bends = 0;
  for (const edge of edges) {
    let [from, to] = [cells[edge.a], cells[edge.b]];
    if (from.row > to.row) [from, to] = [to, from];
    edge.cells = [];
    bends += Math.max(0, to.row - from.row - 1);
    for (let row = from.row + 1; row < to.row && bends < MANY_BENDS; row++) {
      const bend = put({ w: 4, h: 0, row, up: [], down: [], bend: true });
      link(from, bend);
      edge.cells.push((from = bend));
    }
    if (from.row !== to.row) link(from, to);
  }
  return [cells, rows];
}

function arrange(rows) {
  for (let sweep = 0; sweep < 6; sweep++) {
    const down = sweep % 2 === 0;
    for (const row of down ? rows : rows.slice().reverse()) {
      row.forEach((cell) => (cell.key = mean(down ? cell.up : cell.down, cell.x)));
      row.sort((a, b) => a.key - b.key || a.x - b.x);
      row.forEach((cell, at) => (cell.x = at));
    }
  }
  for (const row of rows) {
    let x = 0;
    for (const cell of row) {
      cell.x = x + cell.w / 2;
      x += cell.w + GAP_X;
    }
    for (const cell of row) cell.x -= x / 2;
  }
  for (let sweep = 0; sweep < 8; sweep++) {
    const down = sweep % 2 === 0;
    for (const row of down ? rows : rows.slice().reverse()) {
      const near = row.map((cell) => (down ? cell.up : cell.down));
      fitted(row, row.map((cell, at) => mean(near[at], cell.x)), row.map((cell, at) => (near[at].length ? (cell.bend ? 8 : 2) : 0.2)));
    }
  }
}

// Places of items, and lines between them, from the top left corner of what is around them.
// items: [{w, h, enter, leave}], where lines from above and to below meet them, their middle if not given;
// edges: [{a, b}] by number, where -1 is what comes in at the top and -2 what goes out at the bottom. Those that pass through
// the frame (`through`) meet it at places of their own (`ports`), and run from b to a if `flip`.
function layout(items, given) {
  const count = items.length, [edges, extra, local] = withPorts(count, given);
  const [cells, rows] = rowsOf([...items, ...extra], local);
  dropUnused(cells, rows, local, count);
  arrange(rows);
  let left = Infinity, right = -Infinity, y = HEAD;
  for (const row of rows) {
    if (!row.length) continue;
    const height = Math.max(0, ...row.map((cell) => cell.h));
    for (const cell of row) {
      cell.top = y + (height - cell.h) / 2;
      cell.y = y + height / 2;
      cell.above = y;
      cell.below = y + height;
      left = Math.min(left, cell.x - cell.w / 2);
      right = Math.max(right, cell.x + cell.w / 2);
    }
    y += height ? height + GAP_Y : PORT;
  }
  if (left > right) [left, right] = [0, 0];
  const shift = PAD - left;
  for (const row of rows) for (const cell of row) cell.x += shift;
  const places = cells.slice(0, count).map((cell) => ({ x: cell.x - cell.w / 2, y: cell.top }));
  const height = rows[cells[count + 1].row].length ? y : y - GAP_Y + PAD;
  const lines = local.map((edge, at) => ({ a: edges[at].a, b: edges[at].b, key: edge.key, passes: edge.passes, points: points(edge, cells, height), late: edge.late, saved: edge.saved }));
  for (const edge of given) if (edge.a === edge.b) lines.push({ ...edge, points: loop(cells[edge.a]) });
  const ports = new Map(extra.flatMap((port, at) => (port.key ? [[port.key, cells[count + at].x]] : [])));
  return { w: right - left + 2 * PAD, h: height, enter: cells[count].x, leave: cells[count + 1].x, ports, places, lines };
}

function dropUnused(cells, rows, edges, count) {
  for (const at of [count, count + 1])
    if (!edges.some((edge) => edge.a === at || edge.b === at))
      rows[cells[at].row] = rows[cells[at].row].filter((cell) => cell !== cells[at]);
}

// From a box to itself: a bow at its right.
function loop(cell) {
  const right = cell.x + cell.w / 2, at = (part) => cell.top + cell.h * part;
  return [[right, at(0.8)], [right + 14, at(0.5)], [right, at(0.2)]];
}

function points(edge, cells, height) {
  const from = cells[edge.a], to = cells[edge.b];
  const down = from.row <= to.row;
  const beside = (cell) => (down ? 0 : Math.min(16, cell.w / 4)); // beside the lines that go down
  const meet = (cell, usual) => {
    const port = cell.ports && cell.ports.get(edge.key);
    return cell.x + (port === undefined ? beside(cell) + (usual === undefined ? 0 : usual - cell.w / 2) : port - cell.w / 2);
  };
  const start = from.side ? [from.x, 0] : [meet(from, from.leave), down ? from.top + from.h : from.top];
  const end = to.side ? [to.x, height] : [meet(to, to.enter), down ? to.top : to.top + to.h];
  const bends = (down ? edge.cells : edge.cells.slice().reverse()).flatMap((bend) => [[bend.x, bend.above], [bend.x, bend.below]]);
  const middle = down ? bends : bends.map((_, at) => bends[at ^ 1]);
  return edge.flip ? [end, ...middle.reverse(), start] : [start, ...middle, end];
}

// A smooth path through points.
function pathOf(line, x, y) {
  let text = "", before = null;
  for (const point of line) {
    const px = Math.round((x + point[0]) * 10) / 10, py = Math.round((y + point[1]) * 10) / 10;
    if (before === null) text = `M${px},${py}`;
    else if (px === before[0]) text += `L${px},${py}`;
    else text += `C${before[0]},${(before[1] + py) / 2} ${px},${(before[1] + py) / 2} ${px},${py}`;
    before = [px, py];
  }
  return text;
}
