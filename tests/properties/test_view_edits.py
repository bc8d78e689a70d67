"""Any sequence of edits, through a view and past it, against a naive model of what may move and what goes along."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from torch import Tensor, fx, nn

from tests.support import capturing
from tests.support.comparing import differences
from tests.support.running import values_of
from tests.support.trainable import MODELS, Block
from unflatten import GraphView
from unflatten.errors import IllegalMoveError
from unflatten.view.region import Region

aten = torch.ops.aten
Shape = list[tuple[str, Any, str]]
_FIXED = ("placeholder", "get_attr", "output")
_PICK = st.integers(0, 10_000)
_PICKS = st.lists(_PICK, min_size=1, max_size=3)


class Writing(nn.Module):
    """Writes a buffer and draws random numbers between."""

    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))
        self.parts = nn.ModuleList(nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for part in self.parts:
            self.seen.add_(x.mean(0).detach())
            x = part(x) * self.seen
            x[0].mul_(2)
        return x + torch.rand_like(x)


@lru_cache(maxsize=1)
def graphs() -> dict[str, fx.GraphModule]:
    """Joint graphs, which write nothing, and one that does."""
    block, x = nn.Sequential(Block(), nn.Linear(8, 2)), torch.ones(2, 3, 8)
    odd, args = MODELS["odd"]()
    writing = torch.export.export(Writing(), (torch.ones(2, 3),))
    return {
        "block": capturing.joint(capturing.by_dynamo(block, (x,)), (x,)),
        "odd": capturing.joint(capturing.by_dynamo(odd, args), args),
        "writing": writing.graph_module,
    }


class Edits(RuleBasedStateMachine):
    """A graph that is edited, what it computed at first, and the calls of regions that were folded."""

    @initialize(name=st.sampled_from(["block", "odd", "writing"]))
    def begin(self, name: str) -> None:
        self.pure = name != "writing"
        self.module = copy.deepcopy(graphs()[name])
        self.view = GraphView(self.module)
        self.before = _result(values_of(self.module))
        self.folded: list[fx.Node] = []
        self.made = 0

    @property
    def nodes(self) -> list[fx.Node]:
        return list(self.module.graph.nodes)

    @property
    def is_exact(self) -> bool:
        """Whether values are all that counts: what a module writes is not known."""
        return self.pure and not any(node.op == "call_module" for node in self.nodes)

    @property
    def work(self) -> list[fx.Node]:
        return [node for node in self.nodes if node.op not in _FIXED]

    def chosen(self, picks: Iterable[int]) -> list[fx.Node]:
        work = self.work
        return list(dict.fromkeys(work[pick % len(work)] for pick in picks))

    def region(self, pick: int) -> Region:
        paths = list(self.view.index.children)
        region = self.view[str(paths[pick % len(paths)])]
        calls = region.calls or (region,)
        region = calls[pick // len(paths) % len(calls)]
        found = [each for each in (region.forward, region.backward) if each.nodes] or [self.view.root.forward]
        return found[pick % len(found)]

    @contextlib.contextmanager
    def refusal(self) -> Iterator[list[str]]:
        """What is refused changes nothing; the reason is in the list."""
        shape, tree, refused = _shape(self.module), repr(self.view), list[str]()
        try:
            yield refused
        except IllegalMoveError as error:
            refused.append(str(error))
        if refused:
            assert "no constraint" not in refused[0]
            assert _shape(self.module) == shape
            assert repr(self.view) == tree

    def move(
        self, nodes: list[fx.Node], anchor: fx.Node, fixed: list[fx.Node], act: Callable[[], Any], *, early: bool
    ) -> None:
        """Moves, and compares what moved with what has to: what the nodes need, or what needs them."""
        before, at = self.nodes, {node: place for place, node in enumerate(self.nodes)}
        owners = {node.name: owner for node, owner in self.view.index.owners.items()}
        start = [node for node in nodes if (at[node] > at[anchor] if early else at[node] < at[anchor])]
        along = _closure(start, lambda node: node.all_input_nodes if early else list(node.users))
        wanted = {node for node in along if (at[node] >= at[anchor] if early else at[node] <= at[anchor])}
        legal = not (wanted - set(start)) & {anchor, *fixed}
        moved: list[fx.Node] = []
        with self.refusal() as refused:
            moved = act()
        if self.is_exact:
            assert bool(refused) is not legal
            assert refused or set(moved) == wanted
        else:
            assert refused or wanted <= set(moved)
        assert [node for node in self.nodes if node not in moved] == [node for node in before if node not in moved]
        assert {node.name: owner for node, owner in self.view.index.owners.items()} == owners

    @rule(picks=_PICKS, where=_PICK)
    def hoist(self, picks: list[int], where: int) -> None:
        region, nodes = self.region(where), self.chosen(picks)
        own = list(region.nodes)
        self.move(nodes, own[0], own, lambda: region.hoist(nodes), early=True)

    @rule(picks=_PICKS, where=_PICK)
    def sink(self, picks: list[int], where: int) -> None:
        region, nodes = self.region(where), self.chosen(picks)
        own = list(region.nodes)
        self.move(nodes, own[-1], own, lambda: region.sink(nodes), early=False)

    @rule(picks=_PICKS, where=_PICK, early=st.booleans())
    def move_beside(self, picks: list[int], where: int, *, early: bool) -> None:
        nodes, (anchor,) = self.chosen(picks), self.chosen([where])
        act = self.view.move_before if early else self.view.move_after
        self.move(nodes, anchor, [], lambda: act(nodes, anchor), early=early)

    @precondition(lambda self: self.pure)
    @rule(where=_PICK)
    def extract(self, where: int) -> None:
        region, known = self.region(where), values_of(self.module)
        alone = region.extract()
        named = {node.name: value for node, value in known.items()}
        given = {node.name: named[node.name] for node in alone.graph.find_nodes(op="placeholder")}
        assert differences({port.name: known[port.node] for port in region.outputs}, alone(**given)) == []

    @rule(where=_PICK)
    def outline(self, where: int) -> None:
        region = self.region(where)
        nodes, convex, exact = region.nodes, bool(region.convexity), self.is_exact
        with self.refusal() as refused:
            self.folded.append(region.outline())
        if exact:
            assert bool(refused) is not convex
        if not refused:
            assert not set(nodes) & set(self.nodes)
            assert self.folded[-1] in region.nodes

    @rule(where=_PICK)
    def replace(self, where: int) -> None:
        region = self.region(where)
        if len(region.outputs) != 1:
            return
        alone = region.extract()
        alone.graph.output_node().args = (next(iter(alone.graph.output_node().args[0].values())),)  # type: ignore[union-attr]
        alone.recompile()
        with self.refusal():
            self.folded.append(region.replace(alone))

    @precondition(lambda self: self.folded)
    @rule(pick=_PICK)
    def inline(self, pick: int) -> None:
        folded = [call for call in self.folded if call in self.nodes]
        if folded:
            made = self.view.inline(folded[pick % len(folded)])
            assert set(made) <= set(self.nodes)

    @rule(pick=_PICK)
    def create(self, pick: int) -> None:
        (origin,) = self.chosen([pick])
        if isinstance(origin.meta.get("val"), Tensor):
            owner = self.view.owner(origin)
            made = self.view.create(aten.view_as.default, (origin, origin), origin=origin)
            made.meta["val"] = origin.meta["val"]
            assert (self.view.owner(made).scope, self.view.owner(made).phase) == (owner.scope, owner.phase)
            origin.replace_all_uses_with(made, delete_user_cb=lambda user: user is not made, propagate_meta=False)

    @rule(pick=_PICK)
    def edit_past_the_view(self, pick: int) -> None:
        (node,) = self.chosen([pick])
        if isinstance(node.meta.get("val"), Tensor):
            with self.module.graph.inserting_after(node):
                made = self.module.graph.call_function(aten.view_as.default, (node, node))
            made.meta["val"] = node.meta["val"]
            node.replace_all_uses_with(made, delete_user_cb=lambda user: user is not made, propagate_meta=False)

    @rule(pick=_PICK, key=st.sampled_from(["nn_module_stack", "fwd_nn_module_stack", "seq_nr"]))
    def forget(self, pick: int, key: str) -> None:
        self.chosen([pick])[0].meta.pop(key, None)

    @rule()
    def erase_what_is_not_used(self) -> None:
        for node in reversed(self.work):
            if not node.users and self.pure:
                self.module.graph.erase_node(node)

    @invariant()
    def it_runs_and_gives_the_same(self) -> None:
        self.module.graph.lint()
        self.module.recompile()
        assert differences(self.before, _result(values_of(self.module))) == []

    @invariant()
    def the_view_is_as_a_new_one(self) -> None:
        fresh = GraphView(self.module)
        assert self.view.index.owners == fresh.index.owners
        assert repr(self.view) == repr(fresh)
        assert sorted(node for child in _leaves(self.view.root) for node in child) == list(self.view.root.nodes)


def _leaves(region: Region) -> Iterator[tuple[fx.Node, ...]]:
    yield region.own_nodes
    for child in region:
        yield from _leaves(child)


def _closure(start: Iterable[fx.Node], near: Callable[[fx.Node], Iterable[fx.Node]]) -> set[fx.Node]:
    found = set(start)
    pending = list(found)
    while pending:
        for other in near(pending.pop()):
            if other not in found:
                found.add(other)
                pending.append(other)
    return found


def _shape(module: fx.GraphModule) -> Shape:
    return [(node.name, node.target, repr((node.args, node.kwargs))) for node in module.graph.nodes]


def _result(values: dict[fx.Node, Any]) -> Any:
    """What a graph gives, and what became of its inputs."""
    return [values[node] for node in values if node.op in ("placeholder", "output")]


TestEdits = Edits.TestCase
TestEdits.settings = settings(settings.default, max_examples=15, stateful_step_count=20)
