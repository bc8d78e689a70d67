"""Which modules are `nn.Sequential`: those that call their children in order, each with what the last one gave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from unflatten.code.bodies import Bodies
from unflatten.code.body import Apply, Invoke, Local
from unflatten.code.variants import SEQUENTIAL, Variant
from unflatten.paths import ModulePath


@dataclass(frozen=True, eq=False, slots=True)
class Chains:
    """The modules of a program that are chains.

    Attributes:
        sequential: those that are `nn.Sequential`.
        skipped: children of those that give back what they are given: an `nn.Identity` each.
    """

    sequential: frozenset[ModulePath] = frozenset()
    skipped: frozenset[ModulePath] = frozenset()

    @staticmethod
    def of(bodies: Bodies) -> Chains:
        """Finds the chains among modules with bodies, in time linear in their size."""
        return _Finder(bodies).find()


@dataclass(slots=True)
class _Finder:
    bodies: Bodies
    children: dict[ModulePath, list[ModulePath]] = field(default_factory=dict)
    busy: set[ModulePath] = field(default_factory=set)

    def find(self) -> Chains:
        program, state = self.bodies.grouping.program, self.bodies.grouping.state
        for path in program.paths:
            if path.names:
                self.children.setdefault(path.parent, []).append(path)
        self.busy = {entry.owner for entry in state.entries} | set(self.bodies.literals) | set(program.aliases)
        sequential: set[ModulePath] = set()
        skipped: set[ModulePath] = set()
        for path, variants in self.bodies.variants.items():
            if path.names and path not in self.busy and len(variants) == 1 and _is_sequential(variants[0]):
                left_out = self.chain(path, variants[0])
                if left_out is not None:
                    sequential.add(path)
                    skipped.update(left_out)
        return Chains(frozenset(sequential), frozenset(skipped))

    def chain(self, path: ModulePath, variant: Variant) -> list[ModulePath] | None:
        """The children that a chain does not seem to call; None if the module is no chain."""
        body, left_out = variant.body, []
        if len(body.parameters) != 1 or [access for _, access in body.parameters[0].leaves] != [()]:
            return None
        value = Local(body.parameters[0].leaves[0][0])
        steps: Iterator[Apply | Invoke] = iter(body.steps)
        step = next(steps, None)
        for child in self.children.get(path, ()):
            module = self.bodies.namer.module(path, self.bodies.namer.canonical(child))
            if isinstance(step, Invoke) and step.module == module and _hands_on(step, value):
                value = Local(step.outs[0][0])
                step = next(steps, None)
            elif self.is_idle(child):
                left_out.append(child)
            else:
                return None
        return left_out if step is None and body.result == value else None

    def is_idle(self, path: ModulePath) -> bool:
        """Whether a module has no operators, no state and no children, so that it can only be an identity."""
        called: Mapping[ModulePath, object] = self.bodies.variants
        known = path in called or path in self.bodies.genuine or path in self.busy
        return not known and not self.children.get(path)


def _is_sequential(variant: Variant) -> bool:
    return all(
        draft.call is not None
        and draft.call.type_name == SEQUENTIAL
        and not draft.cut
        and (draft.form is None or (draft.form.positional, len(draft.form.names)) == (1, 1))
        for draft in variant.drafts
    )


def _hands_on(step: Invoke, value: Local) -> bool:
    """Whether a call takes one value and gives one."""
    plain = step.pick is None and not step.kwargs and not step.modes and not step.flat
    return plain and step.args == (value,) and [access for _, access in step.outs] == [()]
