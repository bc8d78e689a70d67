"""Random `Dynamics`: presets, and any fields that go together."""

from __future__ import annotations

from hypothesis import strategies as st

from nir_bridge import Dynamics, presets
from unflatten.testing.nir.nodes import DT


def dynamics(*, dt: float = DT, only_presets: bool = False) -> st.SearchStrategy[Dynamics]:
    """Rules for steps; the default first, then presets, then any fields.

    Args:
        dt: the length of a step. Time constants of `nir_graphs` are multiples of the default.
        only_presets: no fields of their own.

    Example:
        >>> from hypothesis import find
        >>> find(dynamics(), lambda rules: rules.multi_spike and rules.spike_test == ">").reset
        'v_reset'
    """
    return _rules(dt, only_presets)


@st.composite
def _rules(draw: st.DrawFn, dt: float, only_presets: bool) -> Dynamics:
    preset = Dynamics.preset(draw(st.sampled_from(presets())), dt=dt)
    if only_presets or not draw(st.booleans()):
        return preset
    return Dynamics(
        dt=dt,
        integration=draw(st.sampled_from(("euler", "exponential", "event"))),
        input_gain=draw(st.sampled_from(("dt/tau", "1-exp", "one"))),
        synapse=draw(st.sampled_from(("new", "old", "decay_all"))),
        synapse_gain=draw(st.sampled_from(("dt/tau", "1-exp", "one"))),
        spike_test=draw(st.sampled_from((">", ">="))),
        reset=draw(st.sampled_from(("v_reset", "subtract", "snntorch_subtract"))),
        multi_spike=draw(st.booleans()),
        initial_v=draw(st.sampled_from(("zero", "v_leak"))),
        if_gain=draw(st.sampled_from(("r", "r*dt"))),
        feedback=draw(st.sampled_from(("source", "target"))),
        output_lag=draw(st.integers(0, 2)),
    )
