"""The page that says what modules and functions mean."""

from __future__ import annotations

from pathlib import Path

from tools.nir_table import VERSION, page

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "nir-export.md"


def test_the_table_is_current() -> None:
    found, wanted = PAGE.read_text(encoding="utf-8"), page()
    if f"torch {VERSION}." in found:
        assert found == wanted, "run python tools/nir_table.py docs/reference/nir-export.md"
    rows = [line for line in wanted.splitlines() if line.startswith("|") and "error" not in line]
    assert [row for row in rows if row not in found.splitlines()] == []
