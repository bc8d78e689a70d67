"""Constants that become a part of the weight before: a bias that is added, a normalisation with fixed statistics."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from nir_bridge.exporting.modules.torch_nn import NormRecipe
from nir_bridge.exporting.recipes import Elementwise, Recipe, Site
from nir_bridge.exporting.resolving import Resolver
from nir_bridge.exporting.trace import Op, Source, Terms, Trace


def fold_constants(trace: Trace, resolver: Resolver) -> None:
    """Folds every constant into the node before it where that changes nothing for anyone else."""
    calls = Counter(id(op.module) for op in trace.ops if op.module is not None)
    uses = _uses(trace, resolver)
    waiting = _waiting(trace, resolver)
    for number, op in enumerate(trace.ops):
        constants = _constants(op)
        if constants is None:
            continue
        terms = resolver.resolve(resolver.into(number))
        if constants.scale is not None and len(terms) != 1:
            continue
        for term in sorted(terms, key=lambda term: term.at in waiting):  # what only feeds back comes last
            if term.kind == "op" and not term.lag and _is_alone(trace, term, uses, calls, op):
                folded = _folded(trace.ops[term.at].recipe, constants, trace.ops[term.at])
                if folded is not None:
                    trace.ops[term.at] = replace(trace.ops[term.at], recipe=folded)
                    resolver.folded.add(number)
                    for each in terms:  # what used the sum now uses what went into it
                        uses[replace(each, lag=0)] += uses[Source("op", number)] - 1
                    break


def _constants(op: Op) -> Elementwise | None:
    """The constants of an operation that adds some."""
    if isinstance(op.recipe, NormRecipe):
        found: Elementwise = op.recipe.constants(op.takes)
        return found
    return op.recipe if isinstance(op.recipe, Elementwise) and op.recipe.shift is not None else None


def _is_alone(trace: Trace, term: Source, uses: Counter[Source], calls: Counter[int], op: Op) -> bool:
    """Whether nothing else uses a node, and its module is called once, in the same region."""
    before = trace.ops[term.at]
    return before.region == op.region and uses[term] == 1 and (before.module is None or calls[id(before.module)] == 1)


def _folded(recipe: Recipe, constants: Elementwise, op: Op) -> Recipe | None:
    if constants.shift is None:
        return None
    return recipe.with_constants(constants.scale, constants.shift, Site(op.where, op.takes, op.gives))


def _uses(trace: Trace, resolver: Resolver) -> Counter[Source]:
    """How often each value is used."""
    found: Counter[Source] = Counter()
    sums: list[Terms] = [resolver.into(number) for number in range(len(trace.ops)) if number not in resolver.folded]
    for region in trace.regions:
        if region.number not in resolver.inlined:
            sums += [port.terms for port in (*region.ports.values(), *region.outs.values())]
    for terms in sums:
        found.update(replace(term, lag=0) for term in resolver.resolve(terms))
    return found


def _waiting(trace: Trace, resolver: Resolver) -> frozenset[int]:
    """The operations whose inputs all come from the step before."""
    found: set[int] = set()
    for number in range(len(trace.ops)):
        terms = resolver.resolve(resolver.into(number))
        if terms and all(term.kind == "op" and (term.lag or term.at in found) for term in terms):
            found.add(number)
    return frozenset(found)
