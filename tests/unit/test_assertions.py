"""What the assertions of `unflatten.testing` see."""

from __future__ import annotations

import pytest
from torch import nn

from unflatten.errors import DifferenceError
from unflatten.testing import assert_same_hierarchy


def test_a_module_at_two_names_is_one() -> None:
    shared = nn.ReLU()
    both = nn.Sequential(shared, shared)
    assert_same_hierarchy(both, both)
    with pytest.raises(DifferenceError, match="modules at several names, number 0"):
        assert_same_hierarchy(both, nn.Sequential(nn.ReLU(), nn.ReLU()))
