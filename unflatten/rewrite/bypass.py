"""Leaving a module out: its output becomes the input of the same structure.

Legality: what holds for `choosing` and `bypassed`; and no code outside of the module may use its state or the modules
in it by their names, for those leave the tree. The result is as if the calls had not been made: what they wrote, to
buffers or to their arguments, is not written. The caller gets the very tensor that it passed, as from an identity, or a
copy where the program writes one of the two (see `copies`).
Which modules are bypassed says what is computed; the order in which they were does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from unflatten.calls.known import KnownCall
from unflatten.errors import BypassError
from unflatten.paths import ModulePath
from unflatten.rewrite.bypassed import Bypassed, make_bypassed, original_of
from unflatten.rewrite.choosing import Using
from unflatten.rewrite.copies import needs_copies
from unflatten.rewrite.sites import Site, everything, find, holders_of, known_calls, uses


@dataclass(frozen=True, eq=False, slots=True)
class Bypass:
    """A module that was left out.

    Attributes:
        root: the tree that `bypass` was given.
        module: the module.
        stand_in: what is in its place.
    """

    root: nn.Module
    module: nn.Module
    stand_in: Bypassed

    def undo(self) -> nn.Module:
        """Puts the module back, under all its names, where it was among its siblings.

        Raises:
            BypassError: it is back already, or something else was put in its place.
            ModeError: the tree's mode was changed since, and the module can't follow.
        """
        holders = holders_of(self.root, self.stand_in)
        if not holders:
            raise BypassError(
                f"the {type(self.module).__name__} is no longer bypassed: it is back, or what stood for it was replaced"
            )
        return _put_back(Site(ModulePath(), self.stand_in, holders, (self.root,)), self.stand_in)


def bypass(module: nn.Module, path: str | ModulePath, *, using: Using = None) -> Bypass:
    """Leaves a module out: each of its results becomes the input that has the same structure.

    Which input that is follows from the calls that the program makes, not from the values of later ones. The
    module's parameters and buffers leave the tree; `restore`, or `undo` of what is returned, puts the very module back.

    Args:
        module: an unflattened tree, best its root: names outside of it may not be found.
        path: where the module to leave out is, from `module`.
        using: the name or position of the parameter to hand on, where several have the structure of a result.

    Raises:
        UnknownPathError: there is no module of that path.
        AmbiguousBypassError: several inputs have the structure of a result; the message names them.
        BypassError: no input has it, `using` is none that has, the module is bypassed already or never called, or other
            code uses what is inside of it.
        RewriteError: the path is the root's.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from unflatten import bypass, unflatten
        >>> model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        >>> nested = unflatten(torch.export.export(model, (torch.ones(2, 4),)))
        >>> without = bypass(nested, "0")
        >>> torch.equal(nested(-torch.ones(2, 4)), torch.zeros(2, 4)), list(nested.state_dict())
        (True, [])
        >>> _ = without.undo()
        >>> list(nested.state_dict())
        ['0.weight', '0.bias']
    """
    site = find(module, path)
    calls = _calls(site)
    copies = needs_copies(calls, site.tops, everything(*site.tops))
    stand_in = make_bypassed(site.module, site.path, calls, using, copies)
    site.put(stand_in)
    return Bypass(module, site.module, stand_in)


def _calls(site: Site) -> tuple[KnownCall, ...]:
    """The calls to leave out, if they may be."""
    path = str(site.path)
    if isinstance(site.module, Bypassed):
        raise BypassError(f"{path!r} is bypassed already; restore(module, {path!r}) puts it back")
    calls = known_calls(site)
    used = next((use for use in uses(site) if use.rest), None)
    if used is not None:
        raise BypassError(f"can't bypass {site.name}: {used}, which would leave the tree with it")
    return calls


def restore(module: nn.Module, path: str | ModulePath) -> nn.Module:
    """Puts a module back that was bypassed, under all its names, where it was among its siblings.

    Args:
        module: the tree, or a copy of it.
        path: where the module was.

    Returns:
        The module that is back.

    Raises:
        UnknownPathError: there is no module of that path.
        BypassError: it is not bypassed.
        ModeError: the tree's mode was changed since, and the module can't follow.
    """
    site = find(module, path)
    if not isinstance(site.module, Bypassed):
        raise BypassError(f"{site.name} is not bypassed")
    return _put_back(site, site.module)


def _put_back(site: Site, stand_in: Bypassed) -> nn.Module:
    original = original_of(stand_in)
    if original.training is not stand_in.training:
        original.train(stand_in.training)
    site.put(original)
    return original
