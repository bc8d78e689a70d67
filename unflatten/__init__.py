"""Gives a flat PyTorch graph its module hierarchy back."""

from unflatten.build import unflatten as unflatten
from unflatten.errors import UnflattenError as UnflattenError
from unflatten.info import Info as Info
from unflatten.info import info as info
from unflatten.modules import UnflattenedModule as UnflattenedModule
from unflatten.recording.export import export as export

__all__ = ["Info", "UnflattenError", "UnflattenedModule", "export", "info", "unflatten"]
