"""Gives a flat PyTorch graph its module hierarchy back."""

from unflatten import source as source
from unflatten.build import unflatten as unflatten
from unflatten.errors import UnflattenError as UnflattenError
from unflatten.info import Info as Info
from unflatten.info import info as info
from unflatten.modules import UnflattenedModule as UnflattenedModule
from unflatten.recording.export import export as export
from unflatten.rewrite.bypass import Bypass as Bypass
from unflatten.rewrite.bypass import bypass as bypass
from unflatten.rewrite.bypass import restore as restore
from unflatten.rewrite.bypass_node import NodeBypass as NodeBypass
from unflatten.rewrite.bypass_node import bypass_node as bypass_node
from unflatten.rewrite.swap import swap as swap
from unflatten.rewrite.swap_node import NodeSwap as NodeSwap
from unflatten.rewrite.swap_node import swap_node as swap_node
from unflatten.view.recording import record as record
from unflatten.view.view import GraphView as GraphView
from unflatten.view.view import diff as diff

__all__ = [
    "Bypass",
    "GraphView",
    "Info",
    "NodeBypass",
    "NodeSwap",
    "UnflattenError",
    "UnflattenedModule",
    "bypass",
    "bypass_node",
    "diff",
    "export",
    "info",
    "record",
    "restore",
    "source",
    "swap",
    "swap_node",
    "unflatten",
]
