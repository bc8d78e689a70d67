"""How a call looks from outside: its arguments, their nesting and names, its constants, its result.

A `Form` is known for the root, and for every call whose signature export preserved. Where it is not, the
call takes what the graph uses, in a canonical order, and returns what the graph uses afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch.export.exported_program import ModuleCallEntry
from torch.export.graph_signature import ConstantArgument

from unflatten import _torch
from unflatten.code.nesting import Access, accesses
from unflatten.flat.values import FlatInput, FlatNode, FlatProgram, Value
from unflatten.paths import ModuleCall, ModulePath


@dataclass(frozen=True, slots=True)
class Form:
    """How one call is written.

    Attributes:
        arguments: the leaves of `(args, kwargs)`: values of the graph or constants.
        in_spec: how they nest.
        results: the leaves of what is returned.
        out_spec: how they nest.
        names: the parameters' names, positional ones first, then the keywords in the order of `in_spec`.
    """

    arguments: tuple[Any, ...]
    in_spec: _torch.TreeSpec
    results: tuple[Any, ...]
    out_spec: _torch.TreeSpec
    names: tuple[str, ...]

    @property
    def positional(self) -> int:
        """How many arguments are positional; the rest are keywords."""
        return int(self.in_spec.child(0).num_children)

    def parameters(self) -> Iterator[tuple[str, list[tuple[Any, Access]]]]:
        """Each parameter's name, with the leaves of its argument and the steps to them."""
        positional, keywords = self.in_spec.children()
        leaves = iter(self.arguments)
        for name, spec in zip(self.names, (*positional.children(), *keywords.children()), strict=True):
            yield name, [(next(leaves), access) for access in accesses(spec)]

    def values(self) -> Iterator[Value]:
        """The values of the graph among the arguments."""
        return (leaf for leaf in self.arguments if isinstance(leaf, FlatNode | FlatInput))


def root_form(program: FlatProgram) -> Form:
    """How the program itself is called."""
    signature = program.source.module_call_graph[0].signature
    assert_spec = program.source.call_spec
    names = tuple(signature.forward_arg_names or ()) if signature else ()
    return Form(
        arguments=tuple(program.user_inputs),
        in_spec=assert_spec.in_spec,
        results=program.outputs,
        out_spec=assert_spec.out_spec,
        names=parameter_names(assert_spec.in_spec, names),
    )


def preserved_forms(program: FlatProgram) -> dict[ModuleCall, Form]:
    """The forms of the calls whose signature was preserved, by path and index of the call.

    A signature that names nodes which a pass has removed is left out.
    """
    by_name: dict[str, Value] = {value.name: value for value in program.inputs}
    by_name.update((node.name, node) for node in program.nodes)
    forms = {}
    for entry in program.source.module_call_graph[1:]:
        form = _form(entry, by_name)
        if form is not None:
            base, at, count = entry.fqn.rpartition("@")
            repeated = at and count.isdigit() and ModulePath.parse(entry.fqn) not in program.paths
            path = ModulePath.parse(base if repeated else entry.fqn)
            path = program.aliases.get(path, path)
            forms[ModuleCall(path, int(count) if repeated else 0)] = form
    return forms


def _form(entry: ModuleCallEntry, by_name: Mapping[str, Value]) -> Form | None:
    signature = entry.signature
    if signature is None:
        return None
    leaves: list[Any] = []
    for argument in (*signature.inputs, *signature.outputs):
        if isinstance(argument, ConstantArgument):
            leaves.append(argument.value)
        elif argument.name in by_name:
            leaves.append(by_name[argument.name])
        else:
            return None
    count = len(signature.inputs)
    names = parameter_names(signature.in_spec, tuple(signature.forward_arg_names or ()))
    return Form(tuple(leaves[:count]), signature.in_spec, tuple(leaves[count:]), signature.out_spec, names)


def parameter_names(in_spec: _torch.TreeSpec, known: tuple[str, ...]) -> tuple[str, ...]:
    """A name for every top-level argument; the keywords' own names always win."""
    positional, keywords = in_spec.children()
    count, keys = positional.num_children, tuple(keywords.context)
    names = [_apart(name, keys) for name in known[:count]]
    names += [f"arg_{at}" for at in range(len(names), count)]
    return (*names, *keys)


def _apart(name: str, keys: tuple[str, ...]) -> str:
    """A positional parameter's name, changed where a keyword of the call has it too."""
    while name in keys:
        name += "_"
    return name
