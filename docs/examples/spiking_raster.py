"""One spiking network under the rules of several frameworks.

Cells for an editor that knows `# %%`; as a script, from the project's folder: python docs/examples/spiking_raster.py.
Needs nir. With matplotlib, `python docs/examples/spiking_raster.py raster.png` draws.
"""

# %% A published network that reads Braille, and one recording of its 12 sensors
from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

from nir_bridge import from_nir

data = Path("tests/data/nir")
recordings = np.load(data / "paper.npz")
letter = torch.from_numpy(recordings["braille_input"]).float()
print(from_nir(data / "braille_noDelay_bias_zero.nir"))

# %% The same file, the rules of five frameworks
rasters = {}
for preset in ("nir", "norse", "snntorch", "spyx", "exact"):
    net = from_nir(data / "braille_noDelay_bias_zero.nir", dynamics=preset, dt=1e-4)
    with torch.no_grad():
        spikes, _, recorded = net.run(letter, record=("lif1.lif",))
    rasters[preset] = recorded["lif1.lif"]
    counts = " ".join(f"{count:4.0f}" for count in spikes.sum(0).tolist())
    print(f"{preset:9} hidden spikes {int(rasters[preset].sum()):4}, spikes per class {counts}")

# %% Where they differ
for preset, raster in rasters.items():
    differing = int((raster != rasters["snntorch"]).sum())
    print(f"{preset:9} differs from snntorch in {differing} of {raster.numel()} entries")
for preset in ("norse", "snntorch"):
    if not np.array_equal(rasters[preset].numpy(), recordings[f"braille_{preset}"]):
        raise SystemExit(f"the raster of {preset} is not the published one")
print("those of norse and snntorch are the published ones, spike for spike")

# %% Draw them
if len(sys.argv) > 1:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(len(rasters), sharex=True, figsize=(8, 8))
    for axis, (preset, raster) in zip(axes, rasters.items(), strict=True):
        steps, neurons = raster.nonzero().unbind(1)
        axis.scatter(steps.tolist(), neurons.tolist(), s=4, marker="|")
        axis.set_ylabel(preset)
    axes[-1].set_xlabel("step")
    figure.savefig(sys.argv[1], dpi=120)
