"""Replacing a module of a tree by another.

Legality: the replacement has to take and give values as the module did. That can't be seen beforehand, but two
things can. Where the program does not record in which order arguments are passed, only a module of an unflattened tree,
or one that says that it accepts a guessed order, may be called. And what code outside of the module uses of it, by its
name, the replacement has to have as well.
"""

from __future__ import annotations

from torch import nn

from unflatten.errors import NotAModuleError, RewriteError
from unflatten.modules import DEFINITION, guess
from unflatten.paths import ModulePath
from unflatten.rewrite.sites import Site, Use, everything, find, reach, uses


def swap(module: nn.Module, path: str | ModulePath, replacement: nn.Module) -> nn.Module:
    """Puts a module in place of another, under all names that the other has in the tree.

    Nothing calls the other one afterwards. The names keep their order. The replacement is left as it is: neither its
    mode nor its device is changed. Plain assignment does the same for a module that has one name; of a shared one,
    code uses the first name only, so that assigning to another name has no effect on what is computed.

    Args:
        module: an unflattened tree, best its root: names outside of it may not be found.
        path: where the other is, from `module`.
        replacement: the module to put there; it may contain the other.

    Returns:
        What was there before.

    Raises:
        UnknownPathError: there is no module of that path.
        NotAModuleError: the replacement is none.
        UnknownSignatureError: nothing recorded the order of the arguments, and the replacement does not say
            that it accepts a guessed one.
        RewriteError: the path is the root's, the replacement would contain itself, or it lacks what code uses.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from unflatten import swap, unflatten
        >>> model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        >>> nested = unflatten(torch.export.export(model, (torch.ones(2, 4),)))
        >>> before = swap(nested, "1", nn.Tanh())
        >>> torch.equal(nested(torch.ones(2, 4)), torch.tanh(model[0](torch.ones(2, 4))))
        True
    """
    if not isinstance(replacement, nn.Module):
        raise NotAModuleError(f"a {type(replacement).__name__} can't stand for a module: give an nn.Module")
    site = find(module, path)
    _check_cycle(site, replacement)
    for use in uses(site):
        _check(site, use, replacement)
    site.put(replacement)
    return site.module


def _check_cycle(site: Site, replacement: nn.Module) -> None:
    inside = set(everything(replacement))
    if any(holder in inside for holder, _ in site.holders):
        raise RewriteError(
            f"{type(replacement).__name__} contains the module that {site.name} is in, so the tree would contain itself"
        )


def _check(site: Site, use: Use, replacement: nn.Module) -> None:
    """Refuses what could not run at a place where code uses the module."""
    try:
        found = reach(replacement, use.rest)
    except AttributeError as error:
        wanted = ".".join(step.name for step in use.rest)
        raise RewriteError(
            f"can't put a {type(replacement).__name__} in place of {site.name}: {use}, and it has no {wanted!r}"
        ) from error
    body = use.call.pick if use.call is not None else None
    if use.call is None or body is None or not isinstance(found, nn.Module):
        return
    if use.call.guessed:
        guess(found, body)
    definition = getattr(type(found), DEFINITION, None)
    if definition is not None and body >= len(definition.bodies) > 1:
        raise RewriteError(
            f"can't put a {type(found).__name__} in place of {site.name}: {use} in way {body} of calling it, "
            f"and it only knows {len(definition.bodies)}"
        )
