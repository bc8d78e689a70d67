"""The faults in what runs NIR graphs that `plant_faults.py` plants."""

from __future__ import annotations

from tools.planted import Fault

NIR_FAULTS = (
    Fault(
        "a delay is a step too long",
        "nir_bridge/primitives/delay.py",
        "steps = np.floor(delay / target.dynamics.dt + 0.5)",
        "steps = np.floor(delay / target.dynamics.dt + 1.5)",
        "nir_primitives::test_equations[Delay]",
    ),
    Fault(
        "a delay forgets what came in last",
        "nir_bridge/primitives/delay.py",
        "State(past=past.narrow(axis, 0, self.longest))",
        "State(past=past.narrow(axis, 1, self.longest))",
        "nir_primitives::test_equations[Delay]",
    ),
    Fault(
        "a neuron is reset to its threshold",
        "nir_bridge/primitives/steps.py",
        "else found, v_reset, v)",
        "else found, threshold, v)",
        "nir_primitives::test_equations[CubaLIF]",
    ),
    Fault(
        "spikes reset to zero instead of v_reset",
        "nir_bridge/primitives/steps.py",
        "else found, v_reset, v)",
        "else found, torch.zeros_like(v), v)",
        "nir_primitives::test_equations[IF]",
    ),
    Fault(
        "a potential on the threshold spikes",
        "nir_bridge/primitives/steps.py",
        'return operator.gt if dynamics.spike_test == ">" else operator.ge',
        "return operator.ge",
        "nir_primitives::test_equations[IF]",
    ),
    Fault(
        "the bias of an Affine is lost",
        "nir_bridge/primitives/linear.py",
        'weight, bias = parameter(fields.finite("weight"), target), _bias(fields)',
        'weight, bias = parameter(fields.finite("weight"), target), None',
        "nir_primitives::test_equations[Affine]",
    ),
    Fault(
        "an edge that is there twice counts once",
        "nir_bridge/network.py",
        "        terms[edge.target].append(Term(edge.source, at in delayed, _level(flat, edge)))",
        "        term = Term(edge.source, at in delayed, _level(flat, edge))\n"
        "        terms[edge.target] += [] if term in terms[edge.target] else [term]",
        "nir_simulation::test_the_default_rules",
    ),
    Fault(
        "the order of the nodes in a graph is used",
        "nir_bridge/flattening.py",
        "found = sorted((node for level in levels for node in level.nodes), key=lambda node: node.path)",
        "found = [node for level in levels for node in level.nodes]",
        "nir_order::test_order",
    ),
    Fault(
        "an edge that leads forward is delayed",
        "nir_bridge/wiring.py",
        "                if head in self.next[node]:\n                    self.cuts.add((node, head))",
        "                if head in self.next[node]:\n"
        "                    self.cuts.add((node, head))\n"
        "                    self.cuts.update((node, other) for other in self.next[node])",
        "nir_feedback::test_only_edges_on_cycles",
    ),
    Fault(
        "ports of a graph are mixed up",
        "nir_bridge/flattening.py",
        "            if port in inner.ports(kind):\n                return inner.path, port",
        "            if port in inner.ports(kind):\n                return inner.path, inner.ports(kind)[0]",
        "nir_simulation::test_presets",
    ),
    Fault(
        "a current drives the potential a step late",
        "nir_bridge/primitives/cuba.py",
        'current = i if rule == "old" else new',
        "current = i",
        "nir_primitives::test_equations[CubaLIF]",
    ),
)
