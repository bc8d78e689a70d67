"""Where a module sits in a tree, and what the tree's code wants of it.

What was bypassed is part of the tree here: it comes back one day, and must then hold what stands in it now.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from unflatten.calls.known import KnownCall
from unflatten.code.body import Body, Held, Invoke, Step
from unflatten.code.nesting import Made, Rebuilt
from unflatten.errors import BypassError, RewriteError, UnknownPathError
from unflatten.info import calls_of
from unflatten.modules import DEFINITION, PLACE, ROOT_KEY
from unflatten.paths import ROOT, ModulePath
from unflatten.rewrite.bypassed import Bypassed, original_of


@dataclass(frozen=True, eq=False, slots=True)
class Site:
    """A module and all the places at which it sits.

    Attributes:
        path: the path by which it was asked for.
        module: the module.
        holders: the modules that have it as a child, each with the child's name.
        tops: the modules that were searched, with all inside them.
    """

    path: ModulePath
    module: nn.Module
    holders: tuple[tuple[nn.Module, str], ...]
    tops: tuple[nn.Module, ...]

    def put(self, replacement: nn.Module) -> None:
        """Puts another module at every place, among its siblings where this one was."""
        for holder, name in self.holders:
            holder._modules[name] = replacement

    @property
    def name(self) -> str:
        """How messages call the module."""
        return f"{str(self.path)!r} ({type(self.module).__name__})"


@dataclass(frozen=True, slots=True)
class Use:
    """Code that refers to a module, or to something in it.

    Attributes:
        caller: the module whose code it is.
        held: how the code refers to it.
        rest: what the code wants of it, nothing where it wants the module itself.
        call: the call that the code makes of it; None where it uses it in another way.
    """

    caller: nn.Module
    held: Held
    rest: tuple[Step, ...]
    call: Invoke | None

    def __str__(self) -> str:
        text = ".".join(step.name for step in self.held.steps)
        return f"the code of {type(self.caller).__name__} uses {'root' if self.held.from_root else 'self'}.{text}"


def find(module: nn.Module, path: str | ModulePath) -> Site:
    """A module by its path in a tree.

    Raises:
        UnknownPathError: there is none.
        RewriteError: it is the root.
    """
    if isinstance(path, str):
        path = ModulePath.parse(path)
    if path == ROOT:
        raise RewriteError("the root can't be replaced or left out: give the path of a module inside of it")
    found = module
    for name in path.names:
        inner = _children(found).get(name)
        if inner is None:
            raise UnknownPathError(_unknown(module, path))
        found = inner
    tops = _tops(module)
    return Site(path, found, tuple(_holders(tops, found)), tops)


def holders_of(module: nn.Module, wanted: nn.Module) -> tuple[tuple[nn.Module, str], ...]:
    """The modules of a tree that have another as a child, each with the child's name."""
    return tuple(_holders(_tops(module), wanted))


def _tops(module: nn.Module) -> tuple[nn.Module, ...]:
    """A module, and the roots that code inside of it refers to."""
    roots = (inner.__dict__.get(ROOT_KEY) for inner in everything(module))
    return tuple(dict.fromkeys((module, *(root for root in roots if root is not None))))


def _holders(tops: tuple[nn.Module, ...], wanted: nn.Module) -> Iterator[tuple[nn.Module, str]]:
    for holder in everything(*tops):
        yield from ((holder, name) for name, inner in holder._modules.items() if inner is wanted)


def _children(module: nn.Module) -> Mapping[str, nn.Module | None]:
    while isinstance(module, Bypassed):
        module = original_of(module)
    return module._modules


def everything(*tops: nn.Module) -> Iterator[nn.Module]:
    """All modules of trees, each once, those that were bypassed included."""
    seen: set[nn.Module] = set()
    stack = list(reversed(tops))
    while stack:
        module = stack.pop()
        if module in seen:
            continue
        seen.add(module)
        yield module
        inner = [original_of(module)] if isinstance(module, Bypassed) else []
        stack.extend(reversed([*inner, *(child for child in module._modules.values() if child is not None)]))


def _unknown(module: nn.Module, path: ModulePath) -> str:
    known = [name for name, _ in module.named_modules(remove_duplicate=False) if name]
    near = difflib.get_close_matches(str(path), known, n=3)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    return f"there is no module {str(path)!r} in {type(module).__name__}.{hint}"


def known_calls(site: Site) -> tuple[KnownCall, ...]:
    """How the program calls a module.

    Raises:
        BypassError: nothing tells.
    """
    calls = calls_of(everything(*site.tops), site.module, _children)
    if calls:
        return calls
    if PLACE in site.module.__dict__:
        raise BypassError(f"can't bypass {site.name}: the program never calls it")
    raise BypassError(
        f"can't bypass {site.name}: nothing is known of how it is called. The program never calls it, or `unflatten` "
        "did not make it; swap it by a module that returns what you want."
    )


def uses(site: Site) -> Iterator[Use]:
    """Where code outside of a module refers to it, or to something inside of it."""
    inside = set(everything(site.module))
    for caller in everything(*site.tops):
        definition = getattr(type(caller), DEFINITION, None)
        if definition is None or caller in inside:
            continue
        for body in definition.bodies:
            for held, call in _references(body):
                at = _position(caller, held, site.module)
                if at is not None:
                    yield Use(caller, held, held.steps[at:], call)


def _references(body: Body) -> Iterator[tuple[Held, Invoke | None]]:
    """What a body holds; for the modules that it calls, with the call."""
    pending: list[Any] = [body.result]
    for step in body.steps:
        if isinstance(step, Invoke):
            yield step.module, step
        pending += [step.args, step.kwargs]
    while pending:
        value = pending.pop()
        if isinstance(value, Held):
            yield value, None
        elif isinstance(value, tuple | list):
            pending.extend(value)
        elif isinstance(value, Mapping):
            pending.extend(value.values())
        elif isinstance(value, Rebuilt):
            pending.extend(value.leaves)
        elif isinstance(value, Made):
            pending.extend(value.fields.values())


def _position(caller: nn.Module, held: Held, wanted: nn.Module) -> int | None:
    """After how many steps a reference comes to a module, None if it never does."""
    module: nn.Module | None = caller.__dict__.get(ROOT_KEY) if held.from_root else caller
    for at, step in enumerate(held.steps, 1):
        module = module._modules.get(step.name) if module is not None else None
        if module is wanted:
            return at
    return None


def reach(module: nn.Module, steps: tuple[Step, ...]) -> Any:
    """What is found along steps from a module.

    Raises:
        AttributeError: nothing is.
    """
    value: Any = module
    for step in steps:
        children = value._modules if isinstance(value, nn.Module) else {}
        value = children[step.name] if step.name in children else getattr(value, step.name)
    return value
