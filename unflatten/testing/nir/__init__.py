"""Strategies and assertions for NIR graphs and their networks; needs the `testing` and `nir` extras."""

from unflatten.testing.nir.code import graph_code as graph_code
from unflatten.testing.nir.comparing import graph_differences as graph_differences
from unflatten.testing.nir.graphs import nir_graphs as nir_graphs
from unflatten.testing.nir.names import node_names as node_names
from unflatten.testing.nir.nodes import DT as DT
from unflatten.testing.nir.nodes import PRIMITIVES as PRIMITIVES
from unflatten.testing.nir.nodes import Block as Block
from unflatten.testing.nir.nodes import nir_nodes as nir_nodes
from unflatten.testing.nir.ordering import assert_nir_order_invariant as assert_nir_order_invariant
from unflatten.testing.nir.reordering import rearranged as rearranged
from unflatten.testing.nir.reordering import reordered as reordered
from unflatten.testing.nir.round_trips import assert_nir_round_trip as assert_nir_round_trip
from unflatten.testing.nir.rules import dynamics as dynamics
from unflatten.testing.nir.splitting import assert_split_invariant as assert_split_invariant
from unflatten.testing.nir.values import series as series
from unflatten.testing.nir.values import states as states
