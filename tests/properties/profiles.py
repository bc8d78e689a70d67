"""How many examples are tried, and which.

The suite always tries the same programs. `HYPOTHESIS_PROFILE=explore` tries new ones, and many more
(`HYPOTHESIS_EXAMPLES` says how many); `fuzz` is what
`make fuzz` repeats; `planted` is the suite's, without making failing examples smaller.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile(
    "suite", deadline=None, max_examples=20, print_blob=True, derandomize=True, suppress_health_check=SLOW
)
EXAMPLES = int(os.environ.get("HYPOTHESIS_EXAMPLES", "300"))
settings.register_profile("explore", deadline=None, max_examples=EXAMPLES, print_blob=True, suppress_health_check=SLOW)
settings.register_profile("fuzz", deadline=None, max_examples=100, print_blob=True, suppress_health_check=SLOW)
settings.register_profile("planted", settings.get_profile("suite"), phases=[Phase.explicit, Phase.generate])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))
