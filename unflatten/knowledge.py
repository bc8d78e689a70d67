"""What the modules of a result know of their place in the tree: how the program calls them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from unflatten.analysis import Analysis
from unflatten.calls.arguments import Arguments
from unflatten.calls.checks import Limits
from unflatten.calls.known import KnownCall, Place
from unflatten.calls.specs import AnySpec, spec_of
from unflatten.code.variants import Variant
from unflatten.flat.operators import trained_mode
from unflatten.flat.values import FlatInput, FlatNode, Value
from unflatten.grouping.drafts import Draft
from unflatten.paths import ModulePath
from unflatten.regions import Region
from unflatten.signatures import Form


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What an analysis tells of each module.

    Attributes:
        analysis: the analysis.
        check_inputs: whether calls from outside are compared with those of the program.
        genuine: the calls of the genuine modules, by the closest module around each that has generated code.
    """

    analysis: Analysis
    check_inputs: bool
    genuine: Mapping[ModulePath, Mapping[str, tuple[KnownCall, ...]]]

    @staticmethod
    def of(analysis: Analysis, check_inputs: bool) -> Knowledge:
        """Sorts the calls of genuine modules."""
        found: dict[ModulePath, dict[str, tuple[KnownCall, ...]]] = {}
        bare = Knowledge(analysis, check_inputs, {})
        for draft, variant in analysis.bodies.of_call.items():
            path = draft.path
            if path in analysis.genuine or path in analysis.chains.sequential:
                holder = path.parent
                while holder.names and (holder not in analysis.bodies.variants or holder in analysis.chains.sequential):
                    holder = holder.parent
                name = ".".join(path.below(holder))
                calls = found.setdefault(holder, {})
                calls[name] = (*calls.get(name, ()), bare.known_call(variant, draft))
        return Knowledge(analysis, check_inputs, found)

    def place(self, path: ModulePath, variants: list[Variant], limits: Limits) -> Place:
        """What a module knows of its place in the tree."""
        drafts = [(variant, draft) for variant in variants for draft in variant.drafts]
        literals = self.analysis.bodies.literals.get(path, {}).values()
        return Place(
            path=path,
            calls=tuple(self.known_call(variant, draft) for variant, draft in drafts),
            limits=limits,
            checks=self.check_inputs,
            several=len(variants) > 1 or any(variant.body.surplus for variant in variants),
            constants=tuple(dict.fromkeys((*literals, *self.analysis.state.constants.get(path, ())))),
            fixed=tuple(dict.fromkeys(mode for _, draft in drafts for mode in _fixed(draft))),
            regions=tuple(self.analysis.regions[draft] for _, draft in drafts),
            origins=tuple(tuple(self.origins(variant.drafts[0])) for variant in variants),
            text=self.analysis.descriptions[path].text,
            shown=self.analysis.descriptions[path].shown,
            genuine=self.genuine.get(path, {}),
        )

    def origins(self, draft: Draft) -> Iterator[FlatNode | Region]:
        """Where the steps of a body came from."""
        for origin in self.analysis.bodies.origins[draft]:
            yield self.analysis.regions[origin] if isinstance(origin, Draft) else origin

    def known_call(self, variant: Variant, draft: Draft) -> KnownCall:
        """A call as its module remembers it."""
        form, arranged = draft.form, self.analysis.arranged[draft]
        names = tuple(parameter.name for parameter in variant.body.parameters)
        if form is None:
            arguments = Arguments(names, None, tuple(map(spec_of, arranged.inputs)))
            by_number = {number: value for value, number in self.analysis.bodies.values[draft].items()}
            returned = (by_number.get(number) for number in sorted(variant.outputs))
            results = tuple(AnySpec() if value is None else spec_of(value) for value in returned)
            return KnownCall(draft.call, variant.index, arguments, results, False, draft.cut)
        cut = draft.cut
        added = () if draft.path in self.analysis.genuine else names[len(form.names) :]
        if added and not cut:
            cut = f"a pass made it depend on {', '.join(added)} of another module"
        specs = tuple(map(spec_of, form.arguments))
        arguments = Arguments(form.names, form.in_spec, specs, tuple(self.twins(draft, form)))
        return KnownCall(draft.call, variant.index, arguments, tuple(map(spec_of, form.results)), True, cut)

    def twins(self, draft: Draft, form: Form) -> Iterator[tuple[int, int]]:
        """The numbers of arguments that are one tensor."""
        first: dict[Value, int] = {}
        for at, leaf in enumerate(form.arguments):
            if isinstance(leaf, FlatNode | FlatInput) and isinstance(leaf.meta.get("val"), torch.Tensor):
                value = self.analysis.bodies.grouping.resolve(leaf, draft)
                if first.setdefault(value, at) != at:
                    yield first[value], at


def _fixed(draft: Draft) -> Iterator[tuple[str, bool]]:
    """The operators of a call that were captured in a mode, with the mode."""
    for node in draft.nodes:
        mode = trained_mode(node)
        if mode is not None:
            yield node.name, mode
