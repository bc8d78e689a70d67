"""Guards: conditions on a program's inputs, as Python text that export wrote.

Export speaks of inputs by the names of the program's own parameters, `L['x']['k'].size()[0]`. A check of the
program wants its own places instead; a check of a call inside wants symbols, for sizes are all that it shares.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from unflatten.calls.arguments import Arguments
from unflatten.calls.specs import TensorSpec
from unflatten.code.nesting import Item

SYMBOL = "symbol_"
"""What symbols begin with in symbolic guards, so that they are told from functions."""


def in_places(guard: str, names: Sequence[str], places: Sequence[str]) -> str | None:
    """A guard in terms of parameters; None if it speaks of something else.

    Args:
        guard: as export wrote it.
        names: the parameters.
        places: how each leaf of the arguments is reached.
    """
    resolver = _Sources(names, places)
    resolved = resolver.visit(ast.parse(guard, mode="eval"))
    return ast.unparse(resolved) if resolver.complete else None


def in_variables(guard: str, variables: Mapping[str, str]) -> str | None:
    """A symbolic guard in terms of variables; None if one of its symbols has none.

    Args:
        guard: what `in_symbols` returned.
        variables: the variable of each symbol.
    """
    tree = ast.parse(guard, mode="eval")
    symbols = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id.startswith(SYMBOL)}
    if any(symbol.removeprefix(SYMBOL) not in variables for symbol in symbols):
        return None
    return ast.unparse(_Renamed({SYMBOL + name: text for name, text in variables.items()}).visit(tree))


def in_symbols(guard: str, arguments: Arguments) -> str | None:
    """A guard with symbols in place of the sizes that it reads; None if it is about anything else."""
    sizes = {}
    for name, access, spec in arguments.leaves():
        place = name + "".join(f"[{step.key!r}]" for step in access if isinstance(step, Item))
        for dimension, part in enumerate(spec.shape if isinstance(spec, TensorSpec) else ()):
            if isinstance(part, int) or part.is_Symbol:
                text = str(part) if isinstance(part, int) else f"{SYMBOL}{part}"
                sizes[f"{place}.size()[{dimension}]"] = text
    resolved = in_places(guard, arguments.names, [])
    if resolved is None:
        return None
    tree = _Sizes(sizes).visit(ast.parse(resolved, mode="eval"))
    left = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return None if left & set(arguments.names) else ast.unparse(tree)


class _Sizes(ast.NodeTransformer):
    """Replaces sizes that are read by what they are."""

    def __init__(self, sizes: Mapping[str, str]) -> None:
        self.sizes = sizes

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        text = ast.unparse(node)
        if text in self.sizes:
            return ast.parse(self.sizes[text], mode="eval").body
        visited = self.generic_visit(node)
        return visited if isinstance(visited, ast.expr) else node


class _Sources(ast.NodeTransformer):
    """Replaces export's names for inputs, `L['x']['k']`, by the parameters of a check."""

    def __init__(self, names: Sequence[str], places: Sequence[str]) -> None:
        self.names = set(names)
        self.places = places
        self.complete = True

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        match node:
            case ast.Subscript(ast.Subscript(ast.Name("L"), ast.Constant("flat_args")), ast.Constant(int(at))):
                if at < len(self.places):
                    return ast.parse(self.places[at], mode="eval").body
            case ast.Subscript(
                ast.Subscript(ast.Name("L"), ast.Constant(str(name))), ast.Constant(str() | int() as key)
            ) if name not in self.names:
                # *args and **kwargs arrive as parameters of their own.
                for parameter in (f"{name}_{key}", str(key)):
                    if parameter in self.names:
                        return ast.Name(parameter, ast.Load())
            case ast.Subscript(ast.Name("L"), ast.Constant(str(name))) if name in self.names:
                return ast.Name(name, ast.Load())
        visited = self.generic_visit(node)
        return visited if isinstance(visited, ast.expr) else node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id == "L":
            self.complete = False
        return node


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Name(self.names.get(node.id, node.id), node.ctx)
