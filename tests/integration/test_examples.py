"""The examples of the documentation run, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = {
    "llama_surgery": "logits equal, bit for bit: True",
    "spiking_raster": "those of norse and snntorch are the published ones",
    "training_graph": "has to stay in this order",
    "transformer": "weights still tied: True",
}
NEEDS = {"llama_surgery": "transformers", "spiking_raster": "nir"}


def test_every_example_is_run() -> None:
    assert {path.stem for path in (ROOT / "docs" / "examples").glob("*.py")} == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name], reason=f"pip install {NEEDS[name]}", exc_type=ImportError)
    script = ROOT / "docs" / "examples" / f"{name}.py"
    environment = {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1", "PATH": ""}
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=ROOT,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert EXAMPLES[name] in done.stdout
