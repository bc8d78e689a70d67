"""Whole files as they should be. Where a change is meant: `python -m tests.golden`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.models import MODELS, file, text
from tests.unit.source.checking import assert_canonical


@pytest.mark.parametrize("name", list(MODELS))
def test_the_source_is_the_one_that_is_kept(name: str) -> None:
    assert text(name) == file(name).read_text(encoding="utf-8")


def test_what_is_kept_is_formatted(tmp_path: Path) -> None:
    for name in MODELS:
        (tmp_path / f"{name}.py").write_text(file(name).read_text(encoding="utf-8"), encoding="utf-8")
    assert_canonical(tmp_path)
