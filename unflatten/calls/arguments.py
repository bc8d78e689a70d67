"""The arguments of a known call: their names, how they nest, and what each leaf was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from unflatten._torch import TreeSpec
from unflatten.calls.specs import Spec
from unflatten.code.nesting import Access, Leaf, accesses, reached
from unflatten.flat.packing import pack_spec, unpack_spec


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a known call.

    Attributes:
        names: the parameters' names.
        in_spec: how `(args, kwargs)` nest, None where nothing recorded it.
        specs: what each leaf was.
        twins: the numbers of leaves that were one tensor: the first, and another one. The program does not tell
            which of them an operator was meant to use.
    """

    names: tuple[str, ...]
    in_spec: TreeSpec | None
    specs: tuple[Spec, ...]
    twins: tuple[tuple[int, int], ...] = ()

    def __reduce__(self) -> Any:
        return _unpack_arguments, (self.names, self.in_spec and pack_spec(self.in_spec), self.specs, self.twins)

    def leaves(self) -> Iterator[tuple[str, Access, Spec]]:
        """Each leaf, with the parameter that it belongs to and the steps to it."""
        if self.in_spec is None:
            yield from ((name, (), spec) for name, spec in zip(self.names, self.specs, strict=True))
            return
        specs = iter(self.specs)
        for name, part in self.parts():
            yield from ((name, access, next(specs)) for access in accesses(part))

    def parts(self) -> list[tuple[str, TreeSpec]]:
        """Each parameter, with how its argument nests."""
        if self.in_spec is None:
            return []
        positional, keywords = self.in_spec.children()
        return list(zip(self.names, (*positional.children(), *keywords.children()), strict=True))

    def __str__(self) -> str:
        shown: dict[str, list[str]] = {name: [] for name in self.names}
        for name, access, spec in self.leaves():
            shown[name].append(f"{name}{path_text(access)}={spec}")
        return ", ".join(", ".join(parts) if parts else f"{name}=()" for name, parts in shown.items())


def _unpack_arguments(
    names: tuple[str, ...], in_spec: Any, specs: tuple[Spec, ...], twins: tuple[tuple[int, int], ...]
) -> Arguments:
    return Arguments(names, in_spec and unpack_spec(in_spec), specs, twins)


def path_text(access: Access) -> str:
    """Steps as they are written after a name: `['k'][0]`, and `[leaf 0]` where only pytree gets."""
    return "".join(
        f"[leaf {step.index}]" if isinstance(step, Leaf) else reached("", (step,), "leaves") for step in access
    )


def describe(specs: Sequence[Spec]) -> str:
    """Specs in a line."""
    return ", ".join(map(str, specs)) if specs else "nothing"
