"""NIR spiking-network graphs as torch modules."""

from nir_bridge.dynamics import Dynamics as Dynamics
from nir_bridge.dynamics import presets as presets
from nir_bridge.errors import NIRBridgeError as NIRBridgeError
from nir_bridge.from_nir import from_nir as from_nir
from nir_bridge.module import NIRModule as NIRModule
from nir_bridge.node_map import NodeMap as NodeMap
from nir_bridge.state import State as State

__all__ = ["Dynamics", "NIRBridgeError", "NIRModule", "NodeMap", "State", "from_nir", "presets"]
