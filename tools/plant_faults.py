"""Plants faults in a copy of the project, one at a time, and shows that some property fails.

The properties run as CI runs them, the same examples, but without making a failing one smaller. `--only` chooses
faults by a part of their names, `--jobs` runs several at once.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.planted import FAULTS, Fault  # noqa: E402  # the script runs from anywhere
from tools.planted_nir import NIR_FAULTS  # noqa: E402

COPIED = ("unflatten", "nir_bridge", "tests", "pyproject.toml")


class NotPlantedError(Exception):
    """The text that a fault replaces is not there, or there more than once."""


@dataclass(frozen=True)
class Outcome:
    """What came of a fault.

    Attributes:
        fault: the fault.
        found_by: the property that failed first, empty where none did.
        seconds: how long that took, of a processor's time.
    """

    fault: Fault
    found_by: str
    seconds: float


def plant(fault: Fault, root: Path) -> None:
    """Replaces the fault's text in a copy of the project.

    Raises:
        NotPlantedError: the text is not there exactly once.
    """
    file = root / fault.file
    text = file.read_text()
    count = text.count(fault.old)
    if count != 1:
        raise NotPlantedError(f"{fault.name}: {fault.file} has the text {count} times instead of once:\n{fault.old}")
    file.write_text(text.replace(fault.old, fault.new))


def try_out(fault: Fault) -> Outcome:
    """Plants a fault in a copy, and runs properties until one fails."""
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        root = Path(folder)
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, root / name)
        plant(fault, root)
        with (root / "output.txt").open("w+") as output:
            process = subprocess.Popen(
                _command(fault, root), cwd=root, env=_environment(root), stdout=output, stderr=subprocess.STDOUT
            )
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)  # it has been waited for
            output.seek(0)
            shown = output.read()
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", shown, re.MULTILINE)
    if process.returncode not in (0, 1) or (process.returncode == 1) != bool(failed):
        raise NotPlantedError(f"{fault.name}: the properties did not run:\n{shown[-3000:]}")
    return Outcome(fault, failed[1].rpartition("/")[2] if failed else "", usage.ru_utime + usage.ru_stime)


def _command(fault: Fault, root: Path) -> list[str]:
    name, _, function = fault.test.partition("::")
    found = sorted((root / "tests/properties").glob(f"test_{name}.py"))
    files = [f"{file.relative_to(root)}{'::' if function else ''}{function}" for file in found]
    return [sys.executable, "-m", "pytest", "-x", "-q", "-n0", "--tb=no", "--show-capture=no", *files]


def _environment(root: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(root), "HYPOTHESIS_PROFILE": "planted", "OMP_NUM_THREADS": "1"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table; 1 where a fault was not found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a part of the names of the faults to plant")
    parser.add_argument("--jobs", type=int, default=1, help="how many to try at once")
    options = parser.parse_args(arguments)
    chosen = [fault for fault in (*FAULTS, *NIR_FAULTS) if options.only in fault.name]
    print("| fault | found by | after |\n| --- | --- | --- |", flush=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = []
        for outcome in pool.map(try_out, chosen):
            outcomes.append(outcome)
            found = f"`{outcome.found_by}`" if outcome.found_by else "**not found**"
            print(f"| {outcome.fault.name} | {found} | {outcome.seconds:.0f} s |", flush=True)
    count = sum(bool(outcome.found_by) for outcome in outcomes)
    print(f"\n{count} of {len(outcomes)} found.")
    return int(count < len(outcomes))


if __name__ == "__main__":
    raise SystemExit(main())
