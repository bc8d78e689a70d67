"use strict";
// Lines between what is seen. A call has one way in, at its top, and one way out, at its bottom: lines end there.
// Containers that nothing calls have neither: while they are open, lines pass through their frames, each by itself.

// The parts of an edge: one in each call that it goes through, from and to what is a call or a node, null for the way in
// or out of the call. The clusters between the part's home and its ends are loose.
function strandsOf(source, target) {
  const found = [];
  let a = source, b = target, up = parentOf(a), down = parentOf(b);
  while (up !== down) {
    if (up.depth >= down.depth) {
      if (!up.loose) {
        found.push([up, a, null]);
        a = up;
      }
      up = parentOf(up);
    } else {
      if (!down.loose) {
        found.push([down, null, b]);
        b = down;
      }
      down = parentOf(down);
    }
  }
  found.push([up, a, b]);
  return found;
}
function addStrands(source, target, late, saved) {
  for (const [home, a, b] of strandsOf(source, target)) {
    const key = `${a ? a.id : -1} ${b ? b.id : -2}`, known = home.strands.get(key);
    if (known) [known.late, known.saved] = [known.late && late, known.saved && saved];
    else home.strands.set(key, { a, b, late, saved });
  }
}

// What stands for an end of a strand now, and the open frames around it: outermost first, itself last.
function shownOf(home, end) {
  const chain = [];
  for (let at = end; at && at !== home; at = parentOf(at)) chain.unshift(at);
  const closed = chain.findIndex((it) => !it.loose || !open.has(it));
  return closed < 0 ? chain : chain.slice(0, closed + 1);
}
const lineKey = (home, a, b) => `${home.id} ${a.length ? a[a.length - 1].id : -1} ${b.length ? b[b.length - 1].id : -2}`;

// The lines of an open cluster: each between two things that are seen, or from or to its own top and bottom.
function linesOf(home) {
  const found = new Map();
  for (const { a, b, late, saved } of home.strands.values()) {
    const from = shownOf(home, a), to = shownOf(home, b), key = lineKey(home, from, to), known = found.get(key);
    if (known) [known.late, known.saved] = [known.late && late, known.saved && saved];
    else found.set(key, { key, a: from.length ? from[0].at : -1, b: to.length ? to[0].at : -2, from, to, late, saved, passes: to.length > 1 });
  }
  const through = [...home.through.values()].flat(), lines = [...found.values()];
  const up = rising(home.items.length, [...lines, ...through]);
  forgetThrough(home, home);
  lines.forEach((line, at) => pass(home, { ...line, up: up[at] }));
  return [...lines, ...through];
}
// Has the open frames around the ends of a line let it pass: where it goes up, out at their top and in at their bottom.
function pass(home, { key, from, to, late, saved, up }) {
  const part = (frame, a, b, passes) => {
    if (!frame.through.has(home)) frame.through.set(home, []);
    frame.through.get(home).push(up ? { key, a: b, b: a, flip: true, through: true, late, saved, passes } : { key, a, b, through: true, late, saved, passes });
  };
  const top = up ? -2 : -1, bottom = up ? -1 : -2;
  for (let at = 0; at + 1 < from.length; at++) part(from[at], from[at + 1].at, bottom, true);
  for (let at = 0; at + 1 < to.length; at++) part(to[at], top, to[at + 1].at, at + 2 < to.length);
}
function forgetThrough(home, within) {
  for (const inner of within.inside)
    if (inner.loose && inner.through.size) {
      inner.through.delete(home);
      forgetThrough(home, inner);
    }
}
