"""What the inputs and outputs of a graph stand for: descriptors, signatures and names tell, in this order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import fx, nn
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from unflatten.view.values import Kind

_KINDS = {
    InputKind.PARAMETER: Kind.PARAMETER,
    InputKind.BUFFER: Kind.BUFFER,
    InputKind.CONSTANT_TENSOR: Kind.CONSTANT,
    InputKind.CUSTOM_OBJ: Kind.CONSTANT,
}


@dataclass(slots=True)
class Roles:
    """What nodes without a computation of their own stand for.

    Attributes:
        kinds: of placeholders and attributes.
        names: the fully qualified names of parameters, buffers and constants.
        tangents: each tangent with the result of the forward that it is the gradient of, None if not known.
        gradients: nodes that are the whole gradient of an input, with that input.
        loss: the loss, where a signature tells it.
        results: what the graph returns, each node once.
        mutations: returned nodes that are the new values of buffers or inputs.
        saved: returned nodes that are kept for another graph, which is the backward.
    """

    kinds: dict[fx.Node, Kind] = field(default_factory=dict)
    names: dict[fx.Node, str] = field(default_factory=dict)
    tangents: dict[fx.Node, fx.Node | None] = field(default_factory=dict)
    gradients: dict[fx.Node, fx.Node] = field(default_factory=dict)
    loss: fx.Node | None = None
    results: tuple[fx.Node, ...] = ()
    mutations: frozenset[fx.Node] = frozenset()
    saved: frozenset[fx.Node] = frozenset()


def read_roles(graph: fx.Graph, program: ExportedProgram | None, named: Mapping[str, str] | Sequence[str]) -> Roles:
    """Reads what is known of a graph's inputs and outputs.

    Args:
        graph: the graph.
        program: the exported program that it belongs to.
        named: the fully qualified names of parameters among the placeholders, by their names or in their order.
    """
    roles = Roles()
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    output = next((node for node in reversed(graph.nodes) if node.op == "output"), None)
    returned = _flat(output.args) if output is not None else []
    roles.results = tuple(dict.fromkeys(node for node in returned if node is not None))
    _read_descriptors(roles, placeholders)
    if program is not None:
        _read_signature(roles, program, placeholders, returned)
    pairs = (
        named.items() if isinstance(named, Mapping) else zip([node.name for node in placeholders], named, strict=False)
    )
    given = dict(pairs)
    for node in placeholders:
        if node.name in given:
            roles.kinds[node], roles.names[node] = Kind.PARAMETER, given[node.name]
        roles.kinds.setdefault(node, Kind.TANGENT if node.name.startswith("tangents_") else Kind.INPUT)
    _read_attributes(roles, graph)
    _read_outputs(roles, output, returned, placeholders)
    return roles


def _read_descriptors(roles: Roles, placeholders: Iterable[fx.Node]) -> None:
    for node in placeholders:
        descriptor = node.meta.get("desc")
        if descriptor is None or not hasattr(descriptor, "is_tangent"):
            continue
        target = getattr(descriptor, "target", "")
        if descriptor.is_tangent():
            roles.kinds[node] = Kind.TANGENT
        elif descriptor.is_param() or descriptor.is_buffer():
            roles.kinds[node] = Kind.PARAMETER if descriptor.is_param() else Kind.BUFFER
            roles.names[node] = target


def _read_signature(
    roles: Roles, program: ExportedProgram, placeholders: list[fx.Node], returned: list[fx.Node | None]
) -> None:
    by_name = {}
    for node, spec in zip(placeholders, program.graph_signature.input_specs, strict=False):
        if spec.kind in _KINDS:
            roles.kinds[node], roles.names[node] = _KINDS[spec.kind], spec.target or ""
            by_name[spec.target] = node
    written = set()
    for value, result in zip(returned, program.graph_signature.output_specs, strict=False):
        if value is None:
            continue
        if result.kind is OutputKind.GRADIENT_TO_PARAMETER and result.target in by_name:
            roles.gradients[value] = by_name[result.target]
        elif result.kind is OutputKind.LOSS_OUTPUT:
            roles.loss = value
        elif result.kind in (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION):
            written.add(value)
    roles.mutations = frozenset(written)


def _read_attributes(roles: Roles, graph: fx.Graph) -> None:
    owner = graph.owning_module
    parameters = dict(owner.named_parameters(remove_duplicate=False)) if isinstance(owner, nn.Module) else {}
    modules = dict(owner.named_modules(remove_duplicate=False)) if isinstance(owner, nn.Module) else {}
    for node in graph.nodes:
        if node.op == "get_attr":
            name = str(node.target)
            roles.kinds[node] = Kind.PARAMETER if name in parameters else Kind.CONSTANT
            if name not in modules:  # the body of a higher-order operator is no state
                roles.names[node] = name


def _read_outputs(
    roles: Roles, output: fx.Node | None, returned: list[fx.Node | None], placeholders: list[fx.Node]
) -> None:
    """Matches tangents with results, and gradients with inputs, by the descriptors of both."""
    tangents = [node for node in placeholders if roles.kinds[node] is Kind.TANGENT]
    roles.tangents.update(dict.fromkeys(tangents))
    descriptors = output.meta.get("desc") if output is not None else None
    if not isinstance(descriptors, list | tuple) or len(descriptors) != len(returned):
        return
    results = {_hashable(found): node for found, node in zip(descriptors, returned, strict=True) if node is not None}
    inputs = {_hashable(node.meta.get("desc")): node for node in placeholders}
    for node in tangents:
        roles.tangents[node] = results.get(_hashable(getattr(node.meta.get("desc"), "output", None)))
    for found, value in zip(descriptors, returned, strict=True):
        of = inputs.get(_hashable(getattr(found, "grad_of", None)))
        if value is not None and of is not None and found.is_grad():
            roles.gradients[value] = of
    kept = {
        value for found, value in zip(descriptors, returned, strict=True) if type(found).__name__.startswith("Saved")
    }
    roles.saved = frozenset(value for value in kept if value is not None)
    mutated = {value for found, value in zip(descriptors, returned, strict=True) if hasattr(found, "mutated_input")}
    roles.mutations |= frozenset(value for value in mutated if value is not None)


def _hashable(value: Any) -> Any:
    return None if value is None else repr(value)


def _flat(value: Any) -> list[fx.Node | None]:
    """The leaves of what a graph returns; None for those that are no nodes."""
    found: list[fx.Node | None] = []
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, Mapping):
            stack.extend(reversed(list(item.values())))
        elif isinstance(item, list | tuple):
            stack.extend(reversed(item))
        else:
            found.append(item if isinstance(item, fx.Node) else None)
    return found
