"""The tree of calls, frozen: one region for each call of a module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from unflatten.errors import StructureError
from unflatten.flat.values import FlatNode, Modes, Value
from unflatten.grouping.drafts import Draft
from unflatten.grouping.ordering import Arrangement
from unflatten.paths import ROOT, ModuleCall, ModulePath


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Region:
    """The operators of one call of one module, those of the calls inside it included.

    Attributes:
        call: the call, None for the whole program.
        items: the operators that belong to the call itself, and the regions inside it, as they run.
        inputs: what it takes from outside.
        outputs: what is used of it outside.
        modes: the global modes under which it is called.
        piece: which piece of the call it is, where the call had to be cut.
        cut: why it had to be, empty where the call is whole.
    """

    call: ModuleCall | None
    items: tuple[FlatNode | Region, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[FlatNode, ...]
    modes: Modes = ()
    piece: int = 0
    cut: str = ""

    @property
    def path(self) -> ModulePath:
        """The module that is called."""
        return self.call.path if self.call else ROOT

    @property
    def own_nodes(self) -> tuple[FlatNode, ...]:
        """The operators that belong to no call inside this one."""
        return tuple(item for item in self.items if isinstance(item, FlatNode))

    @property
    def children(self) -> tuple[Region, ...]:
        """The calls inside this one."""
        return tuple(item for item in self.items if isinstance(item, Region))

    def walk(self) -> Iterator[Region]:
        """This region and all inside it, each before what is inside it."""
        stack = [self]
        while stack:
            region = stack.pop()
            yield region
            stack.extend(reversed(region.children))

    @property
    def nodes(self) -> tuple[FlatNode, ...]:
        """All operators, those of the calls inside included."""
        return tuple(node for region in self.walk() for node in region.own_nodes)

    def verify(self) -> None:
        """Checks that every item comes after what it takes, and that all that is offered is computed.

        Raises:
            StructureError: one does not.
        """
        for region in self.walk():
            made = {value for item in region.items for value in _made_by(item)}
            known = set(region.inputs)
            for item in region.items:
                used = item.inputs if isinstance(item, Region) else item.operands
                late = [value for value in used if value in made and value not in known]
                if late:
                    raise StructureError(f"in {region.call or 'the program'}, {item!r} uses {late} too early")
                known.update(_made_by(item))
            missing = [value for value in region.outputs if value not in known and region.call is not None]
            if missing:
                raise StructureError(f"{region.call} offers {missing}, which nothing in it computes")

    def __repr__(self) -> str:
        return f"<{self.call or 'the program'}>"

    def __str__(self) -> str:
        lines: list[str] = []
        stack: list[tuple[FlatNode | Region, int]] = [(self, 0)]
        while stack:
            item, depth = stack.pop()
            if isinstance(item, Region):
                cut = f"  (piece {item.piece}: {item.cut})" if item.cut else ""
                lines.append("  " * depth + f"{item.call or 'the program'}{cut}")
                stack.extend((inner, depth + 1) for inner in reversed(item.items))
            else:
                lines.append("  " * depth + repr(item))
        return "\n".join(lines)


def _made_by(item: FlatNode | Region) -> tuple[FlatNode, ...]:
    return item.outputs if isinstance(item, Region) else (item,)


def freeze(
    drafts: list[Draft], arranged: Mapping[Draft, Arrangement], ambient: Mapping[Draft, Modes]
) -> dict[Draft, Region]:
    """Makes the regions of drafts, given so that every draft comes before the ones inside it."""
    regions: dict[Draft, Region] = {}
    for draft in reversed(drafts):
        order = arranged[draft]
        regions[draft] = Region(
            call=draft.call,
            items=tuple(regions[item] if isinstance(item, Draft) else item for item in order.items),
            inputs=order.inputs,
            outputs=order.outputs,
            modes=ambient.get(draft, ()),
            piece=draft.piece,
            cut=draft.cut,
        )
    return regions
