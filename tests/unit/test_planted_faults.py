"""The list of faults that `make faults` plants fits the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.planted import FAULTS, Fault
from tools.planted_nir import NIR_FAULTS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("fault", [*FAULTS, *NIR_FAULTS], ids=lambda fault: fault.name)
def test_the_text_that_a_fault_replaces_is_there_once(fault: Fault) -> None:
    assert (ROOT / fault.file).read_text(encoding="utf-8").count(fault.old) == 1
    assert fault.new != fault.old
