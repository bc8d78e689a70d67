"""Tries new random programs for an hour, with a line of progress; what fails is kept and tried first the next time.

`FUZZ_MINUTES` bounds it. Failing examples stay in `.hypothesis`, so that the next run, and `HYPOTHESIS_PROFILE=explore`
tests, begin with them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = re.compile(r"- (\d+) passing, (\d+) failing")


def properties() -> list[Path]:
    """The files of properties."""
    return sorted((ROOT / "tests/properties").glob("test_*.py"))


def run(file: Path, seconds: float) -> tuple[str, int]:
    """Tries a file of properties once; what pytest says, and how many examples it tried."""
    environment = {**os.environ, "HYPOTHESIS_PROFILE": "fuzz"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n0",
        "--hypothesis-show-statistics",
        "--show-capture=no",
        str(file),
    ]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as stopped:
        return "", count(str(stopped.stdout))
    return "" if done.returncode == 0 else done.stdout, count(done.stdout)


def count(text: str) -> int:
    """How many examples Hypothesis tried, by its statistics."""
    return sum(int(passing) + int(failing) for passing, failing in EXAMPLES.findall(text))


def rounds(end: float) -> Iterator[Path]:
    """The files of properties, over and over until the time is up."""
    for file in cycle(properties()):
        if time.monotonic() >= end:
            return
        yield file


def main() -> int:
    """Fuzzes; 1 where a property failed."""
    minutes = float(os.environ.get("FUZZ_MINUTES", "60"))
    start = time.monotonic()
    end, examples, failures = start + 60 * minutes, 0, dict[str, str]()
    for file in rounds(end):
        passed = (time.monotonic() - start) / 60
        line = f"{passed:5.1f} of {minutes:g} min, {examples} examples, {len(failures)} failing files, now {file.name}"
        print(f"\r{line:<100}", end="", flush=True)
        report, tried = run(file, max(1.0, end - time.monotonic()))
        examples += tried
        if report:
            failures[file.name] = report
    print(f"\n{examples} examples, failing: {', '.join(failures) or 'none'}")
    for report in failures.values():
        print(report)
    return int(bool(failures))


if __name__ == "__main__":
    raise SystemExit(main())
