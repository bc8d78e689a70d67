"""Models that loop over time in `forward`: one graph for a step, where all steps are the same.

A run notes every step. Step after step is compared with the one before: the same calls in the same order, whose inputs
come from the same calls of the same step, or of the one before, which makes a cycle. The first step may lack what
comes from before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from nir_bridge.errors import NoMeaningError
from nir_bridge.exporting.recipes import Slice, Stack
from nir_bridge.exporting.starting import Start, is_shift, same_constants, through
from nir_bridge.exporting.trace import Op, Port, Region, Source, Terms, Trace

_HOW = (
    "A loop over time is exported as its step, so each step has to do the same: for x_t in x: y_t, state = "
    "step(x_t, state); outs.append(y_t); and the end has to be torch.stack(outs). Or export the step itself, a module "
    "forward(x, state) -> (y, state)"
)


def fold_steps(trace: Trace) -> Trace:
    """The run of one step, from a run of several; the run itself where it has none.

    Raises:
        NoMeaningError: steps differ.
    """
    if not any(isinstance(op.recipe, Slice) for op in trace.ops):
        return trace
    for place, (taken, count, where) in _slices(trace).items():
        if taken != set(range(count)):
            shown = ", ".join(map(str, sorted(taken)))
            raise NoMeaningError(
                f"{where}: of {place} only the parts {shown} of {count} are used. A part of a signal has no meaning in "
                f"NIR, but as a step of time. {_HOW}"
            )
    return _Folder(trace).folded()


def _slices(trace: Trace) -> dict[str, tuple[set[int], int, str]]:
    """The parts that are taken of each value."""
    found: dict[str, tuple[set[int], int, str]] = {}
    for op in trace.ops:
        if isinstance(op.recipe, Slice):
            terms = next(iter(op.inputs.values()))
            name = f"input {terms[0].key!r}" if terms[0].kind == "port" and terms[0].at == 0 else "a signal"
            found.setdefault(name, (set(), op.recipe.count, op.where))[0].add(op.recipe.at)
    return found


@dataclass(slots=True)
class _Folder:
    trace: Trace
    times: dict[int, int] = field(default_factory=dict)
    steps: dict[int, list[tuple[str, int]]] = field(default_factory=dict)
    ops: dict[int, int] = field(default_factory=dict)
    regions: dict[int, int] = field(default_factory=dict)
    shifts: dict[int, int] = field(default_factory=dict)
    region_times: dict[int, int] = field(default_factory=dict)

    def folded(self) -> Trace:
        self.sort()
        last = max(self.steps)
        if last < 2:
            raise NoMeaningError(f"the model loops over time, but its example has {last + 1} steps; give it 3 or more")
        model = last - 1
        for time in range(last + 1):
            self.compare(time, model, partly=time in (0, last))
        for time in range(2, last):
            self.check_lags(time, model)
        self.check_start(model)
        return self.step(model)

    def check_start(self, model: int) -> None:
        """Compares what the first step does without with what NIR does without."""
        first = [number for kind, number in self.steps[0] if kind == "op" and number in self.ops]
        start = Start(self.trace, self.trace, {number: self.ops[number] for number in first})
        for number in first:
            sources = self.reached(self.trace.ops[self.ops[number]])
            old = [term.at for term in sources if self.times[term.at] < model]
            present = [self.origin(term) for term in sources if self.times[term.at] == model]
            start.compare(number, [self.origin(term) for term in start.sources(number)], present)
            if start.silent(number, old) is False:
                self.shifts.update(dict.fromkeys((at for each in old for at in start.chain(each)), 1))

    def origin(self, term: Source) -> int:
        """The operation of the step that is kept which a value comes from; -1 for the input."""
        return -1 if isinstance(self.trace.ops[term.at].recipe, Slice) else self.ops.get(term.at, -2)

    def sort(self) -> None:
        """Finds the step of every operation, and what each step does."""
        for number, op in enumerate(self.trace.ops):
            if isinstance(op.recipe, Slice):
                self.check_slice(op)
                self.times[number] = op.recipe.at
            elif not isinstance(op.recipe, Stack):
                found = [self.times[term.at] for term in self.reached(op) if term.at in self.times]
                found += [self.times[state] for state in op.states if state in self.times]
                self.times[number] = max(found, default=-1)
        for kind, number in self.trace.events:
            time = self.times.get(number, -1) if kind == "op" else self.region_time(number)
            if kind == "op" and isinstance(self.trace.ops[number].recipe, Slice | Stack):
                continue
            if kind == "region":
                self.region_times[number] = time
            if time < 0:
                what = self.trace.ops[number].where if kind == "op" else self.trace.regions[number].path
                raise NoMeaningError(f"{what}: it is outside of the loop over time. {_HOW}")
            self.steps.setdefault(time, []).append((kind, number))
        if not self.steps:
            raise NoMeaningError(f"the loop over time does nothing. {_HOW}")

    def check_slice(self, op: Op) -> None:
        terms = next(iter(op.inputs.values()))
        known = [term for term in self.through(terms) if term.kind == "port" and term.at == 0]
        if len(known) != 1 or len(self.through(terms)) != 1:
            raise NoMeaningError(f"{op.where}: it takes a step of something that is no input of the model. {_HOW}")

    def through(self, terms: Terms) -> Terms:
        """Terms, followed through the edges of regions."""
        return through(self.trace, terms)

    def reached(self, op: Op) -> Terms:
        """The operations whose results go into one."""
        return tuple(term for terms in op.inputs.values() for term in self.through(terms) if term.kind == "op")

    def region_time(self, number: int) -> int:
        """The step of a region: that of what is inside, or of what goes in."""
        inside = [self.times.get(at, -1) for at, op in enumerate(self.trace.ops) if self.is_inside(op.region, number)]
        around = [self.times.get(term.at, -1) for port in self.trace.regions[number].ports.values()
                  for term in self.through(port.terms) if term.kind == "op"]  # fmt: skip
        return max([*inside, *around], default=-1)

    def is_inside(self, region: int | None, outer: int) -> bool:
        while region is not None and region != outer:
            region = self.trace.regions[region].parent
        return region is not None

    def compare(self, time: int, last: int, *, partly: bool) -> None:
        """Matches what a step does with what another does; the first and the last may do a part of it."""
        mine, theirs = self.steps.get(time, []), self.steps[last]
        matched, at = [], 0
        for kind, number in mine:
            found = next((place for place in range(at, len(theirs)) if self.alike((kind, number), theirs[place])), None)
            if found is not None:
                matched.append(((kind, number), theirs[found]))
                at = found + 1
            elif not partly or time or kind != "op" or not is_shift(self.trace.ops[number].recipe):
                what = self.trace.ops[number].where if kind == "op" else f"module {self.trace.regions[number].path!r}"
                raise NoMeaningError(f"{what}: step {time} of the loop over time does it, step {last} does not. {_HOW}")
        if not partly and len(matched) < len(theirs):
            raise NoMeaningError(f"step {time} of the loop over time does less than step {last}. {_HOW}")
        for (kind, number), (_, other) in matched:
            (self.ops if kind == "op" else self.regions)[number] = other

    def alike(self, one: tuple[str, int], other: tuple[str, int]) -> bool:
        if one[0] != other[0]:
            return False
        if one[0] == "region":
            first, second = self.trace.regions[one[1]], self.trace.regions[other[1]]
            return first.module is second.module
        a, b = self.trace.ops[one[1]], self.trace.ops[other[1]]
        if a.module is not None or b.module is not None:
            return a.module is b.module
        return a.name == b.name and same_constants(a.recipe, b.recipe)

    def check_lags(self, time: int, last: int) -> None:
        """Compares where the inputs of a step come from with where those of the last one do."""
        for kind, number in self.steps[time]:
            if kind != "op":
                continue
            op, other = self.trace.ops[number], self.trace.ops[self.ops[number]]
            if self.origins(op, time) != self.origins(other, last):
                raise NoMeaningError(
                    f"{op.where}: in step {time} of the loop over time its input comes from elsewhere than in step "
                    f"{last}. {_HOW}"
                )
            if op.gives_state and not any(self.ops.get(state) == self.ops[number] for state in op.states):
                raise NoMeaningError(f"{op.where}: its state is not passed on from step to step. {_HOW}")

    def origins(self, op: Op, time: int) -> list[tuple[int, int]]:
        """Which operations go into one, and how many steps before."""
        found = []
        for term in self.reached(op):
            lag = time - self.times[term.at]
            if lag > 1:
                raise NoMeaningError(f"{op.where}: its input is {lag} steps old; NIR feeds back the last step. {_HOW}")
            is_slice = isinstance(self.trace.ops[term.at].recipe, Slice)
            found.append((-1 if is_slice else self.ops.get(term.at, -2), lag))
        return sorted(found)

    def step(self, last: int) -> Trace:
        """The run of the last step alone, with what comes from the one before fed back."""
        kept_ops = [number for kind, number in self.steps[last] if kind == "op"]
        kept_regions = [0, *(number for kind, number in self.steps[last] if kind == "region")]
        op_number = {number: at for at, number in enumerate(kept_ops)}
        region_number = {number: at for at, number in enumerate(kept_regions)}
        mover = _Mover(self, op_number, region_number)
        made = Trace()
        for number in kept_regions:
            made.regions.append(mover.region(self.trace.regions[number]))
        mover.made = made
        for number in kept_ops:
            op = self.trace.ops[number]
            inputs = {key: mover.terms(terms, self.times[number]) for key, terms in op.inputs.items()}
            made.ops.append(replace(op, region=region_number[self.regions.get(op.region, 0)], inputs=inputs, states=()))
        for number in kept_regions[1:]:
            mover.ports(self.trace.regions[number], made.regions[region_number[number]])
        self.outputs(mover, made)
        numbers = {"op": op_number, "region": region_number}
        made.shifts = {self.place(number, op_number): by for number, by in self.shifts.items()}
        made.events = [(kind, numbers[kind][number]) for kind, number in self.steps[last]]
        return made

    def place(self, number: int, numbers: dict[int, int]) -> int:
        """The number in the step that is kept of an operation of any step."""
        return numbers[self.ops[number]]

    def outputs(self, mover: _Mover, made: Trace) -> None:
        """The outputs: of the step, where the model gives them for all steps."""
        seen: set[Terms] = set()
        for port in self.trace.regions[0].outs.values():
            terms = mover.terms(port.terms, max(self.steps))
            shape = port.shape
            first = self.trace.ops[port.terms[0].at] if port.terms and port.terms[0].kind == "op" else None
            if first is not None and isinstance(first.recipe, Stack):
                steps = [mover.terms(each, time) for time, each in enumerate(first.inputs.values())]
                if len(port.terms) > 1 or any(each != steps[0] for each in steps) or not self.is_in_order(first):
                    raise NoMeaningError(
                        f"{first.where}: it does not put together one value of each step, in their order. {_HOW}"
                    )
                terms = steps[0]
                source = next(iter(first.inputs.values()))[0]
                shape = self.trace.ops[source.at].gives if source.kind == "op" else None
            elif {self.times.get(term.at) for term in self.through(port.terms) if term.kind == "op"} - {
                max(self.steps)
            }:
                raise NoMeaningError(
                    f"an output of the model is, or adds up, what earlier steps of its loop over time give. {_HOW}"
                )
            if terms not in seen:
                seen.add(terms)
                made.regions[0].outs[len(seen)] = Port(port.name, terms, shape)
        if len(seen) == 1:
            for port in made.regions[0].outs.values():
                port.name = "output"

    def is_in_order(self, stack: Op) -> bool:
        """Whether a series is made of all steps, one after the other."""
        found = [{self.times.get(term.at) for term in self.through(each)} for each in stack.inputs.values()]
        return found == [{time} for time in range(max(self.steps) + 1)]


@dataclass(slots=True)
class _Mover:
    """Sources of the whole run as sources of one step."""

    folder: _Folder
    ops: dict[int, int]
    numbers: dict[int, int]
    made: Trace = field(default_factory=Trace)

    def terms(self, terms: Terms, now: int) -> Terms:
        """A sum that is used at a time."""
        return tuple(found for term in terms for found in self.source(term, now))

    def source(self, term: Source, now: int) -> Terms:
        trace = self.folder.trace
        if term.kind == "op":
            op = trace.ops[term.at]
            if isinstance(op.recipe, Slice):
                return self.terms(next(iter(op.inputs.values())), now)
            if isinstance(op.recipe, Stack):
                return (term,)
            if term.at not in self.folder.ops:
                raise NoMeaningError(f"{op.where}: only the first step of the loop over time does it. {_HOW}")
            lag = now - self.folder.times[term.at]
            return (Source("op", self.ops[self.folder.ops[term.at]], term.key, lag),)
        if term.at == 0:
            return (term,)
        number, time = self.numbers[self.folder.regions[term.at]], self.folder.region_times[term.at]
        table = trace.regions[term.at].ports if term.kind == "port" else trace.regions[term.at].outs
        held = table[term.key]
        moved = self.terms(held.terms, time)
        key = self.made.key(moved)
        mine = self.made.regions[number].ports if term.kind == "port" else self.made.regions[number].outs
        mine.setdefault(key, Port(held.name, moved, held.shape))
        return (Source(term.kind, number, key, now - time),)

    def region(self, region: Region) -> Region:
        parent = None if region.parent is None else self.numbers[region.parent]
        made = Region(self.numbers[region.number], parent, region.name, region.path, region.module)
        if region.number == 0:
            made.ports = {key: replace(port) for key, port in region.ports.items()}
            for op in self.folder.trace.ops:
                if isinstance(op.recipe, Slice):
                    for term in self.folder.through(next(iter(op.inputs.values()))):
                        made.ports[term.key].shape = op.gives
        return made

    def ports(self, region: Region, made: Region) -> None:
        """The ports and outputs that other steps have, too."""
        for table, mine in ((region.ports, made.ports), (region.outs, made.outs)):
            for port in table.values():
                moved = self.terms(port.terms, self.folder.region_times[region.number])
                mine.setdefault(self.made.key(moved), Port(port.name, moved, port.shape))
