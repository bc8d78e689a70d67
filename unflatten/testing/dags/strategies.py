"""Random models as Hypothesis strategies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from hypothesis import strategies as st

from unflatten.errors import UnknownFeatureError, listing
from unflatten.testing.dags.dag import ModuleDag
from unflatten.testing.dags.plans import FORMS, HOLDERS, KINDS, LEAVES, Leaf, Plan, RootPlan, Step
from unflatten.testing.dags.writing import write


@dataclass(frozen=True)
class Features:
    """What random models may have; everything unless it is switched off.

    Attributes:
        children: modules inside of modules.
        leaves: children that are modules of `torch.nn`.
        containers: children in lists and dicts.
        sharing: modules at two names, or with two parents.
        ties: parameters with two owners.
        several_calls: calls of one module in several ways: with keywords, constants, shapes, children chosen by flags.
        sibling_calls: calls of another module's child.
        mutation: buffers that are written, in-place operators, written arguments.
        constants: tensors that are neither parameters nor buffers.
        views: values that share memory.
        pytrees: tuples and dicts that are taken and given.
        optional_arguments: arguments that are None unless given.
        dynamic: sizes that vary, and arithmetic on sizes.
        dropout: random numbers.
        higher_order: `cond`, `scan` and regions without gradients.
        idle: modules, parameters, buffers and values that nothing uses, and modules that compute nothing.
        hostile_names: names that are no identifiers.
        keyword_names: modules named `for` or `graph`: torch 2.13 fails in `module()` and `run_decompositions()`.
        training: models in train mode.
    """

    children: bool = True
    leaves: bool = True
    containers: bool = True
    sharing: bool = True
    ties: bool = True
    several_calls: bool = True
    sibling_calls: bool = True
    mutation: bool = True
    constants: bool = True
    views: bool = True
    pytrees: bool = True
    optional_arguments: bool = True
    dynamic: bool = True
    dropout: bool = True
    higher_order: bool = True
    idle: bool = True
    hostile_names: bool = True
    keyword_names: bool = True
    training: bool = True

    @classmethod
    def only(cls, *names: str) -> Features:
        """Some features and no others.

        Raises:
            UnknownFeatureError: there is no feature of a name.

        Example:
            >>> Features.only("views").views, Features.only("views").ties
            (True, False)
        """
        none = cls(**dict.fromkeys((found.name for found in fields(cls)), False))
        return _switched(none, dict.fromkeys(names, True))


def module_dags(
    features: Features | None = None, *, depth: int = 2, width: int = 3, steps: int = 5, **switches: bool
) -> st.SearchStrategy[ModuleDag]:
    """Random trees of modules with random data flow: small models that always run.

    Args:
        features: what the models may have; everything unless given.
        depth: how many levels of modules there are below the root, at most.
        width: how many children a module has, at most 4.
        steps: how many things a module does besides calling each of its children, at most.
        switches: features by name, on top of `features`: `module_dags(mutation=False)`.

    Raises:
        UnknownFeatureError: a switch has no such name.

    Example:
        >>> from hypothesis import find
        >>> dag = find(module_dags(children=False), lambda dag: "relu" in dag.source)
        >>> print(dag.source.split("def build")[0].strip())
        import torch
        from torch import nn
        <BLANKLINE>
        <BLANKLINE>
        class Root(nn.Module):
            def forward(self, x, y):
                a = torch.relu(y)
                return a + x
    """
    on = _switched(features or Features(), switches)
    levels = _plans(on, (), steps, width)
    for _ in range(depth if on.children else 0):
        levels = _plans(on, (levels, _leaves(on)) if on.leaves else (levels,), steps, width)
    roots = st.builds(RootPlan, levels, _maybe(on.training), _maybe(on.dynamic), st.booleans())

    @st.composite
    def drawn(draw: st.DrawFn) -> ModuleDag:  # what is mapped would print as how it was drawn, and not as it is
        return ModuleDag(write(draw(roots)))

    return drawn().filter(_runs)


def _switched(features: Features, switches: Mapping[str, bool]) -> Features:
    known = [found.name for found in fields(Features)]
    unknown = [name for name in switches if name not in known]
    if unknown:
        raise UnknownFeatureError(f"there are no features of these names:\n{listing(unknown)}\nKnown are {known}.")
    return replace(features, **switches)


def _plans(on: Features, below: Sequence[st.SearchStrategy[Any]], steps: int, width: int) -> st.SearchStrategy[Plan]:
    """Plans of modules whose children are drawn from what is below."""
    kinds = [kind for kind, feature in KINDS.items() if not feature or getattr(on, feature)]
    small = st.integers(0, 3)
    step = st.builds(Step, st.sampled_from(kinds), small, small, small)
    form = st.sampled_from(FORMS if on.pytrees else FORMS[:1])
    holders = [holder for holder, feature in HOLDERS.items() if not feature or getattr(on, feature)]
    return st.builds(
        Plan,
        steps=st.lists(step, max_size=steps, min_size=0 if on.idle else 1).map(tuple),
        children=st.lists(st.one_of(*below), max_size=min(width, 4)).map(tuple) if below else st.just(()),
        holder=st.sampled_from(holders),
        takes=form,
        gives=form,
        shared=_maybe(on.sharing),
        tied=_maybe(on.ties),
        borrows=_maybe(on.sharing),
        idle=_maybe(on.idle),
        drops=_maybe(on.idle),
        spare=_maybe(on.idle),
        hostile=_maybe(on.hostile_names),
        halves=_maybe(on.several_calls),
        masked=_maybe(on.optional_arguments),
        scaled=_maybe(on.several_calls),
    )


def _leaves(on: Features) -> st.SearchStrategy[Leaf]:
    codes = [code for code, feature in LEAVES.items() if not feature or getattr(on, feature)]
    return st.builds(Leaf, st.sampled_from(codes))


def _maybe(allowed: bool) -> st.SearchStrategy[bool]:
    return st.booleans() if allowed else st.just(False)


def _runs(dag: ModuleDag) -> bool:
    """Whether the model itself runs: torch refuses some writes to views, and cond refuses aliases."""
    try:
        dag.model()(*dag.args, **dag.kwargs)
    except RuntimeError:
        return False
    return True
