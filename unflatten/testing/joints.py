"""Random graphs with a backward half."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from hypothesis import assume
from hypothesis import strategies as st
from torch import fx

from unflatten import _torch
from unflatten.testing.dags.dag import ModuleDag
from unflatten.testing.dags.strategies import Features, module_dags


@dataclass(frozen=True, eq=False)
class JointGraph:
    """A model's forward and backward in one graph.

    Attributes:
        dag: the model.
        graph_module: the joint graph, with the stacks of modules on its nodes.
    """

    dag: ModuleDag
    graph_module: fx.GraphModule

    def __repr__(self) -> str:
        return f"joint_graph({self.dag!r})"


def joint_graph(dag: ModuleDag) -> JointGraph:
    """Captures the joint graph of a model, as AOTAutograd gives it to backends.

    Example:
        >>> from unflatten.testing.dags.plans import Plan, RootPlan, Step
        >>> from unflatten.testing.dags.writing import write
        >>> dag = ModuleDag(write(RootPlan(Plan((Step("weigh"),)))))
        >>> [node.name for node in joint_graph(dag).graph_module.graph.nodes if node.op == "call_function"]
        ['mm', 'add', 't', 'mm_1']
    """
    return JointGraph(dag, _torch.joint_graph_module(dag.model(), dag.args, dag.kwargs))


def joint_features() -> Features:
    """What models may have of which joint graphs are drawn: what AOTAutograd takes without a fuss."""
    return replace(Features(), mutation=False, constants=False, dropout=False, higher_order=False, dynamic=False)


def joint_graphs(features: Features | None = None, **switches: bool) -> st.SearchStrategy[JointGraph]:
    """Joint graphs of random models that have something to learn.

    Args:
        features: what the models may have; by default no writes, plain tensors, random numbers, higher-order operators
            and varying sizes.
        switches: features by name.

    Example:
        >>> from hypothesis import given, settings
        >>> @settings(max_examples=2)
        ... @given(joint_graphs(children=False))
        ... def test(joint):
        ...     assert any(node.name.startswith("tangents") for node in joint.graph_module.graph.nodes)
        >>> test()
    """

    @st.composite
    def draw(draw: st.DrawFn) -> JointGraph:
        dag = draw(module_dags(features or joint_features(), **switches))
        assume(_learns(dag))
        return joint_graph(dag)

    return draw()


def _learns(dag: ModuleDag) -> bool:
    """Whether some result has a gradient."""
    results = _torch.tree_leaves(dag.model()(*dag.args, **dag.kwargs))
    return any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in results)
