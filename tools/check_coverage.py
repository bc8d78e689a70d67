"""Fails if the tests run less of the code than is promised.

    python tools/check_coverage.py coverage.json

The file is what `coverage json` writes. The files with the most branches that no test takes are printed too.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

LINES, BRANCHES = 95.0, 90.0
SHOWN = 10


def shares(totals: dict[str, Any]) -> tuple[float, float]:
    """The shares of lines and of branches that were run, in percent.

    >>> shares({"covered_lines": 96, "num_statements": 100, "covered_branches": 9, "num_branches": 10})
    (96.0, 90.0)
    """
    lines, statements = totals["covered_lines"], totals["num_statements"]
    taken, branches = totals["covered_branches"], totals["num_branches"]
    return 100 * lines / max(statements, 1), 100 * taken / max(branches, 1)


def main(path: str) -> int:
    """Prints the shares; 1 if one is too small."""
    report = json.loads(Path(path).read_text(encoding="utf-8"))
    missing = {name: file["summary"]["missing_branches"] for name, file in report["files"].items()}
    for name in sorted(missing, key=lambda name: (-missing[name], name))[:SHOWN]:
        print(f"{missing[name]:4} branches not taken in {name}")
    lines, branches = shares(report["totals"])
    print(f"{lines:.1f} % of lines (at least {LINES:g}), {branches:.1f} % of branches (at least {BRANCHES:g})")
    return int(lines < LINES or branches < BRANCHES)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
