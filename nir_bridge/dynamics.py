"""How continuous equations become steps: the choices that NIR leaves open, as one frozen value.

Presets are named after the framework whose output they reproduce.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from nir_bridge.errors import DynamicsError

_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "integration": ("euler", "exponential", "event"),
    "input_gain": ("dt/tau", "1-exp", "one"),
    "synapse": ("new", "old", "decay_all"),
    "synapse_gain": ("dt/tau", "1-exp", "one"),
    "spike_test": (">", ">="),
    "reset": ("v_reset", "subtract", "snntorch_subtract", "snntorch_delayed"),
    "initial_v": ("zero", "v_leak"),
    "if_gain": ("r", "r*dt"),
    "feedback": ("source", "target"),
}


@dataclass(frozen=True, slots=True)
class Dynamics:
    """How a step of `dt` seconds is taken.

    Attributes:
        dt: the length of a step in seconds; 1.0 where time constants are in steps.
        integration: `"euler"` takes `1 - dt/tau` for the decay of a step, `"exponential"` takes `exp(-dt/tau)`,
            `"event"` solves for the time of the spike inside of the step, the input held over it.
        input_gain: what an input counts for in one step: `"dt/tau"` is `dt/tau * r`, `"1-exp"` is
            `(1 - exp(-dt/tau)) * r`, `"one"` is 1 whatever `r`. For integration `"event"` it has no meaning.
        synapse: which current drives the membrane: the `"new"` one, the `"old"` one, or the new one where the
            input decays together with the current (`"decay_all"`).
        synapse_gain: what an input counts for in the current, as `input_gain`, with `w_in` and `tau_syn`.
        spike_test: how the membrane potential is compared with the threshold.
        reset: what a spike does to the potential. `"snntorch_subtract"` is snnTorch's subtraction in two stages,
            `"snntorch_delayed"` its default: a spike subtracts at the next step.
        multi_spike: whether a step can give several spikes.
        initial_v: where the potential starts.
        if_gain: what an input counts for in `I` and `IF`.
        feedback: whether a cycle is cut at the output of the neuron (`"source"`), so that a recurrent
            layer's bias acts at the first step, or at the edge that comes back (`"target"`).
        output_lag: how many steps later than computed spikes come out.

    Example:
        >>> Dynamics.preset("norse", dt=1e-4).spike_test
        '>'
    """

    dt: float = 1e-4
    integration: str = "euler"
    input_gain: str = "dt/tau"
    synapse: str = "new"
    synapse_gain: str = "dt/tau"
    spike_test: str = ">"
    reset: str = "v_reset"
    multi_spike: bool = False
    initial_v: str = "zero"
    if_gain: str = "r"
    feedback: str = "source"
    output_lag: int = 0

    def __post_init__(self) -> None:
        problems = list(_problems(self))
        if problems:
            raise DynamicsError("these fields of a Dynamics can't be: " + "; ".join(problems))

    @staticmethod
    def preset(name: str, **changes: Any) -> Dynamics:
        """The rules of a framework, with changes.

        Args:
            name: one of `presets()`.
            **changes: fields that are to be different.

        Raises:
            DynamicsError: there is no such preset, field or value.
        """
        given: Any = name
        if not isinstance(given, str) or name not in PRESETS:
            near = difflib.get_close_matches(str(name), PRESETS, 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise DynamicsError(f"there is no preset {name!r}; there are {', '.join(PRESETS)}.{hint}")
        return PRESETS[name].changed(**changes)

    def changed(self, **changes: Any) -> Dynamics:
        """The same with other values for some fields.

        Raises:
            DynamicsError: there is no such field or value.
        """
        names = [item.name for item in fields(self)]
        unknown = [name for name in changes if name not in names]
        if unknown:
            raise DynamicsError(f"Dynamics has no field {', '.join(unknown)}; it has {', '.join(names)}")
        return replace(self, **changes)


def _problems(dynamics: Dynamics) -> Any:
    for name, choices in _CHOICES.items():
        value = getattr(dynamics, name)
        if not isinstance(value, str) or value not in choices:
            yield f"{name}={value!r} is none of {', '.join(map(repr, choices))}"
    dt: Any = dynamics.dt
    if isinstance(dt, bool) or not isinstance(dt, int | float) or not (math.isfinite(dt) and dt > 0):
        yield f"dt={dt!r} is no positive number of seconds"
    lag: Any = dynamics.output_lag
    if isinstance(lag, bool) or not isinstance(lag, int) or lag < 0:
        yield f"output_lag={lag!r} is no number of steps"
    several: Any = dynamics.multi_spike
    if not isinstance(several, bool):
        yield f"multi_spike={several!r} is neither True nor False"


_STEPS: Final[Mapping[str, Any]] = {
    "integration": "exponential", "input_gain": "one", "synapse": "decay_all", "synapse_gain": "one",
    "spike_test": ">=", "reset": "subtract", "multi_spike": True,
}  # fmt: skip

PRESETS: Final[Mapping[str, Dynamics]] = {
    "nir": Dynamics(),
    "norse": Dynamics(dt=1e-3, feedback="target"),
    "snntorch": Dynamics(),
    "spikingjelly": Dynamics(spike_test=">=", initial_v="v_leak", if_gain="r*dt"),
    "sinabs": Dynamics(dt=1.0, **_STEPS),
    "rockpool": Dynamics(dt=1e-3, **_STEPS),
    "spyx": Dynamics(dt=1.0, input_gain="one", synapse_gain="one", reset="subtract", output_lag=1),
    "nengo": Dynamics(dt=1e-3, integration="exponential", input_gain="1-exp", synapse_gain="1-exp", if_gain="r*dt"),
    "exact": Dynamics(integration="event"),
}


def presets() -> tuple[str, ...]:
    """The names of the presets."""
    return tuple(PRESETS)


def as_dynamics(given: str | Dynamics, dt: float | None) -> Dynamics:
    """The rules that a caller asked for.

    Raises:
        DynamicsError: it is neither a preset's name nor a `Dynamics`.
    """
    if not isinstance(given, str | Dynamics):
        raise DynamicsError(
            f"dynamics is a {type(given).__name__}; give a Dynamics, or one of {', '.join(map(repr, PRESETS))}"
        )
    chosen = Dynamics.preset(given) if isinstance(given, str) else given
    return chosen if dt is None else chosen.changed(dt=dt)
