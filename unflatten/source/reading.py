"""From a tree of modules to the parts that are to be written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from unflatten.calls.known import Place
from unflatten.code.body import Apply, Body, Held, Invoke, Step, frozen
from unflatten.errors import SourceError
from unflatten.modules import DEFINITION, PLACE, Definition, UnflattenedModule
from unflatten.paths import ROOT, ModulePath
from unflatten.source.arguments import (
    at_path,
    callee_of,
    discrete,
    first_calls,
    nesting,
    own_tensor,
    tensor_of,
    with_keys,
)
from unflatten.source.conversions import followed, idle
from unflatten.source.expressions import Expression, Instance, Items, Literal, New, Ref
from unflatten.source.families import merged, recursive
from unflatten.source.local_names import named
from unflatten.source.loops import looped
from unflatten.source.nn_leaves import constructed, is_of_torch
from unflatten.source.ordering import is_ordered, leaf_has_effects, ordered
from unflatten.source.parts import Link, Part, slotted
from unflatten.source.passing import handed_on
from unflatten.source.shapes import Shapes
from unflatten.source.signatures import Signature, signature_of
from unflatten.source.tensors import held_tensors, tensors_of
from unflatten.source.text import class_name, unused
from unflatten.source.tidying import devices, renumbered, tidied, with_moves

CONTAINERS: tuple[type[nn.Module], ...] = (
    nn.ModuleList,
    nn.ModuleDict,
    nn.Sequential,
    nn.ParameterList,
    nn.ParameterDict,
)


@dataclass(slots=True)
class Reading:
    """What a tree of modules holds.

    Attributes:
        root: its top.
        paths: the first path of each module, by `id`.
        tensors: the first place of each tensor, by `id`.
        parts: the modules that get classes, each before those inside it.
        later: for each module that sets something after all is made, what it sets.
        signatures: how the written code of each module is called, by `id`.
        families: for modules, by `id`, what they have in common with others of their class.
        effects: for modules, by `id`, whether the order of their calls matters.
        tidy: what each module computes, by `id`, without what capturing added; in the order of the first calls.
        numbers: for each module, by `id`, the place of each of its bodies in that order.
        places: what each module knows of its place, by `id`, with its bodies in that order.
        device: the device of everything, None where there are several.
        shapes: writes shapes down.
    """

    root: nn.Module
    paths: dict[int, ModulePath] = field(default_factory=dict)
    tensors: dict[int, tuple[ModulePath, str]] = field(default_factory=dict)
    parts: dict[ModulePath, Part] = field(default_factory=dict)
    later: dict[ModulePath, list[Link]] = field(default_factory=dict)
    signatures: dict[int, Signature] = field(default_factory=dict)
    families: dict[int, str] = field(default_factory=dict)
    effects: dict[int, bool] = field(default_factory=dict)
    tidy: dict[int, tuple[Body, ...]] = field(default_factory=dict)
    numbers: dict[int, tuple[int, ...]] = field(default_factory=dict)
    places: dict[int, Place] = field(default_factory=dict)
    device: torch.device | None = None
    shapes: Shapes = field(default_factory=Shapes)

    def read(self) -> dict[ModulePath, Part]:
        """The parts.

        Raises:
            SourceError: a module can't be written.
        """
        modules = list(self.walk())
        for path, module in modules:
            self.paths[id(module)] = path
        for path, module in modules:
            self.ties(path, module)
        self.device = self.only_device()
        written = [(path, module) for path, module in modules if is_written(module)]
        for _, module in written:
            self.tidy[id(module)] = self.tidied(module)
        found = first_calls(self.root, lambda module: self.tidy.get(id(module), ()))
        for _, module in written:
            self.number(module, found.get(id(module), ()))
            self.signatures[id(module)] = signature_of(self.places[id(module)], self.tidy[id(module)])
        self.find_families(written)
        for path, module in written:
            self.parts[path] = self.part(path, module)
        for path, links in self.later.items():
            if path not in self.parts:
                raise SourceError(f"{path} holds a tensor twice, in a module that has no class of its own")
            self.parts[path] = replace(self.parts[path], links=tuple(links))
        return self.parts

    def find_families(self, written: Sequence[tuple[ModulePath, nn.Module]]) -> None:
        """Finds the modules that become one class whatever they do, and the parameters that it has."""
        names = {path: class_name(type_name(module)) for path, module in written}
        depths = recursive(names)
        members: dict[str, list[nn.Module]] = {}
        for path, module in written:
            if path.names and type_name(module):
                members.setdefault(names[path], []).append(module)
        for name, modules in members.items():
            signatures = _aligned([self.signatures[id(module)] for module in modules], modules)
            order = _common_order(signatures, modules)
            if name in depths or order is None:
                continue
            optional = {each for each in order if any(each not in one.shown() for one in signatures)}
            optional.update(one.renamed[each] for one in signatures for each in one.optional)
            order = (*(each for each in order if each not in optional), *(each for each in order if each in optional))
            for module, signature in zip(modules, signatures, strict=True):
                self.families[id(module)] = name
                self.signatures[id(module)] = replace(signature, order=order)

    def walk(self) -> Iterator[tuple[ModulePath, nn.Module]]:
        """Every module once, at its first path, each before those inside it."""
        seen: set[int] = set()
        stack: list[tuple[ModulePath, nn.Module]] = [(ROOT, self.root)]
        while stack:
            path, module = stack.pop()
            if id(module) in seen:
                continue
            seen.add(id(module))
            yield path, module
            children = [(path / name, child) for name, child in module._modules.items() if child is not None]
            stack.extend(reversed(children))

    def only_device(self) -> torch.device | None:
        """The device of everything, None where there are several."""
        found = devices(body for module in self.root.modules() for body in bodies_of(module))
        found |= {tensor.device for module in self.root.modules() for _, tensor in held_tensors(module)}
        return next(iter(found)) if len(found) == 1 else None

    def ties(self, path: ModulePath, module: nn.Module) -> None:
        """Notes which tensors a module holds that another one holds too."""
        for name, tensor in held_tensors(module):
            owner, first = self.tensors.setdefault(id(tensor), (path, name))
            if (owner, first) == (path, name):
                continue
            above = self.written_above(path, owner)
            link = Link(path.below(above), name, owner.below(above), first)
            self.later.setdefault(above, []).append(link)

    def written_above(self, *paths: ModulePath) -> ModulePath:
        """The closest module with a class of its own that is around all of some paths, or one of them."""
        names = paths[0].names
        while any(path.names[: len(names)] != names for path in paths):
            names = names[:-1]
        while names and not is_written(at_path(self.root, names)):
            names = names[:-1]
        return ModulePath(names)

    def tidied(self, module: nn.Module) -> tuple[Body, ...]:
        """What a module computes, without what capturing added."""
        place, bodies = place_of(module), []
        every = place.origins or ((),) * len(bodies_of(module))
        for at, (body, origins) in enumerate(zip(bodies_of(module), every, strict=True)):
            source = tensor_of(place.calls, at, body) or own_tensor(module)
            tidy = tidied(with_moves(body, origins), source, self.device)
            whole = discrete(place.calls, at, body, origins)
            bodies.append(followed(ordered(tidy, self.call_effects(module), whole), idle(body, origins)))
        return tuple(bodies)

    def number(self, module: nn.Module, called: Sequence[int]) -> None:
        """Puts the bodies of a module in the order of the first calls, whatever the program calls them.

        Those that only differed in what is left out are one.
        """
        bodies, place = self.tidy[id(module)], place_of(module)
        order = [*called, *(at for at in range(len(bodies)) if at not in called)]
        keys = [renumbered(body).key() for body in bodies] if len(bodies) > 1 else [None] * len(bodies)
        firsts = {key: bodies[at] for at, key in reversed([(at, keys[at]) for at in order])}
        distinct = list(dict.fromkeys(keys[at] for at in order))
        numbers = self.numbers[id(module)] = tuple(map(distinct.index, keys))
        self.tidy[id(module)] = tuple(firsts[key] for key in distinct)
        calls = tuple(
            replace(call, body=numbers[call.body]) if call.body < len(numbers) else call for call in place.calls
        )
        self.places[id(module)] = replace(place, calls=calls)

    def part(self, path: ModulePath, module: nn.Module) -> Part:
        """One module."""
        place, signature = self.places[id(module)], self.signatures[id(module)]
        constants: list[tuple[str, Literal]] = []
        bodies = []
        for at, tidy in enumerate(self.tidy[id(module)]):
            whole = handed_on(tidy, nesting(place.calls, at), self.results(module))
            called = self.called(path, module, whole)
            bodies.append(slotted(looped(called, self.lists(module)), constants))
        children = [(name, self.child(path / name, child)) for name, child in module._modules.items()]
        return Part(
            path=path,
            name=class_name(type_name(module)),
            signature=signature,
            bodies=tuple(bodies),
            constants=tuple(constants),
            tensors=tuple(tensors_of(module)),
            children=tuple(children),
            shapes=self.shapes.lines(place, signature),
            family=self.families.get(id(module)),
        )

    def child(self, path: ModulePath, module: nn.Module | None) -> Expression:
        """What makes a child."""
        if module is None:
            return Literal(None)
        first = self.paths[id(module)]
        if first != path:
            return Ref(first)
        if is_written(module):
            return Instance(path)
        if isinstance(module, UnflattenedModule):
            return bare_linear(module)
        if type(module) in CONTAINERS:
            return self.container(path, module)
        if is_of_torch(module):
            return constructed(module, str(path))
        raise SourceError(
            f"{path} is a {type(module).__name__} of {type(module).__module__}, whose code is not the program's. A "
            "written package needs only torch: put a module of torch.nn there, or write the tree before swapping."
        )

    def container(self, path: ModulePath, module: nn.Module) -> Items:
        """What makes a container."""
        items = [(name, self.child(path / name, child)) for name, child in module._modules.items()]
        items += [(tensor.name, tensor.made) for tensor in tensors_of(module)]
        return Items(type(module).__name__, tuple(items))

    def call_effects(self, module: nn.Module) -> Callable[[Invoke], bool]:
        """Tells of the calls of a body whether their order matters."""

        def found(step: Invoke) -> bool:
            return self.has_effects(callee_of(self.root, module, step))

        return found

    def lists(self, module: nn.Module) -> Callable[[Held], nn.Module | None]:
        """Tells of places in a body whether there is a list of modules."""

        def found(held: Held) -> nn.Module | None:
            if held.from_root or any(step.how not in ("attr", "item") for step in held.steps):
                return None
            inner = module._modules
            at: nn.Module | None = module
            for step in held.steps:
                at = inner.get(step.name)
                inner = at._modules if at is not None else {}
            return at if isinstance(at, nn.ModuleList | nn.Sequential) else None

        return found

    def results(self, module: nn.Module) -> Callable[[Invoke], Any]:
        """Tells of the calls of a body what the callee returns, as that one's body has it."""

        def found(step: Invoke) -> Any:
            bodies = bodies_of(callee_of(self.root, module, step))
            return bodies[step.pick or 0].result if bodies else None

        return found

    def has_effects(self, module: nn.Module) -> bool:
        """Whether the order of a module's calls among others of the kind matters."""
        if id(module) not in self.effects:
            self.effects[id(module)] = False  # where it calls itself, through the root
            own = [step for body in bodies_of(module) for step in body.steps if isinstance(step, Apply)]
            self.effects[id(module)] = (
                any(is_ordered(step) for step in own)
                or (not is_written(module) and leaf_has_effects(module))
                or any(self.has_effects(child) for child in module._modules.values() if child is not None)
            )
        return self.effects[id(module)]

    def called(self, path: ModulePath, module: nn.Module, body: Body) -> Body:
        """A body whose calls are made as the written code of the callees takes them."""
        steps = [self.call(path, module, step) if isinstance(step, Invoke) else step for step in body.steps]
        written = with_keys(replace(body, steps=tuple(steps)), module)
        return named(written, self.parameters(module, body))

    def parameters(self, module: nn.Module, body: Body) -> list[tuple[str, ...]]:
        """For each call of a body, the parameters of the callee's written code; none for operators and leaves."""
        found = []
        for step in body.steps:
            known = self.signatures.get(id(callee_of(self.root, module, step))) if isinstance(step, Invoke) else None
            found.append(known.order if known else ())
        return found

    def call(self, path: ModulePath, module: nn.Module, step: Invoke) -> Invoke:
        """A call as the written code of the callee takes it."""
        callee = callee_of(self.root, module, step)
        held = step.module
        if held.from_root:
            held = self.link(path, module, self.paths[id(callee)])
        signature = self.signatures.get(id(callee))
        if signature is None or not signature.names:
            return replace(step, module=held, pick=None)
        args, kwargs = signature.given(self.numbers[id(callee)][step.pick or 0], step.args, step.kwargs)
        return replace(step, module=held, pick=None, args=args, kwargs=kwargs)

    def link(self, path: ModulePath, module: nn.Module, target: ModulePath) -> Held:
        """How code calls a module that is not inside its own: through a tuple, which does not register it."""
        above = self.written_above(path, target)
        links = self.later.setdefault(above, [])
        for link in links:
            if not link.tensor and (link.owner, link.target) == (path.below(above), target.below(above)):
                break
        else:
            taken = {*dir(nn.Module()), *module._modules, *module._parameters, *module._buffers}
            taken |= {link.name for link in links if link.owner == path.below(above)}
            name = unused(f"other_{class_name(target.name).lower()}", taken)
            link = Link(path.below(above), name, target.below(above))
            links.append(link)
        return Held((Step(link.name), Step("0", "item")))


def _aligned(signatures: Sequence[Signature], modules: Sequence[nn.Module]) -> list[Signature]:
    """Signatures with the same names, where these are only guesses."""
    guessed = all(not body.named for module in modules for body in bodies_of(module))
    if not guessed:
        return list(signatures)
    longest = max(signatures, key=lambda one: len(one.kept)).shown()
    aligned = []
    for one in signatures:
        renamed = {**one.renamed, **dict(zip(one.kept, longest, strict=False))}
        aligned.append(replace(one, renamed=renamed))
    return aligned


def _common_order(signatures: Sequence[Signature], modules: Sequence[nn.Module]) -> tuple[str, ...] | None:
    """The parameters of all of some modules in order; None where these modules can't be of one class."""
    if any(signature.form for signature in signatures):
        return None
    if merged([list(module._modules) for module in modules]) is None:
        return None
    if merged([[name for name, _ in held_tensors(module)] for module in modules]) is None:
        return None
    kept = [signature.shown() for signature in signatures]
    return merged(kept) or tuple(dict.fromkeys(name for names in kept for name in names))


def is_written(module: nn.Module) -> bool:
    """Whether a module gets a class of its own."""
    return isinstance(module, UnflattenedModule) and not is_bare_linear(module)


def is_bare_linear(module: nn.Module) -> bool:
    """Whether a module only holds the parameters of an `nn.Linear`, for another one to use."""
    held = module._parameters
    if bodies_of(module) or not type_name(module).startswith("torch.nn.modules.linear.") or "weight" not in held:
        return False
    weight, plain = held["weight"], not module._modules and not module._buffers and held.keys() <= {"weight", "bias"}
    return plain and weight is not None and weight.dim() == 2


def bare_linear(module: nn.Module) -> New:
    """The `nn.Linear` that holds the same."""
    out_features, in_features = module.get_parameter("weight").shape
    named = (("bias", Literal(module._parameters.get("bias") is not None)),)
    sizes = (("in_features", Literal(in_features)), ("out_features", Literal(out_features)))
    return New("nn.Linear", sizes, named, (frozen(True),))


def bodies_of(module: nn.Module) -> tuple[Body, ...]:
    """What a module computes."""
    definition: Definition | None = getattr(type(module), DEFINITION, None)
    return definition.bodies if definition else ()


def type_name(module: nn.Module) -> str:
    """What the original's class was called."""
    definition: Definition | None = getattr(type(module), DEFINITION, None)
    return definition.type_name if definition else ""


def place_of(module: nn.Module) -> Place:
    """What a module knows of its place."""
    found: Place = module.__dict__[PLACE]
    return found
