"""Surgery on a Llama of which there is only an exported program.

Cells for an editor that knows `# %%`; as a script: python docs/examples/llama_surgery.py. Needs transformers.
"""

# %% A file that somebody gives you: a small Llama, exported
from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.export import Dim
from transformers import LlamaConfig, LlamaForCausalLM

from unflatten import bypass, export, info, swap, unflatten

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=64,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    use_cache=False,
)
model = LlamaForCausalLM(config).eval()
tokens = torch.randint(64, (2, 12))
folder = tempfile.TemporaryDirectory()
file = Path(folder.name, "llama.pt2")
shapes = {"input_ids": {0: Dim("batch", min=1, max=64), 1: Dim("length", min=2, max=128)}, "use_cache": None}
torch.export.save(export(model, (tokens,), {"use_cache": False}, dynamic_shapes=shapes), file)

# %% What is in it?
program = torch.export.load(file)
print(f"{len(program.graph.nodes)} nodes in a flat graph\n")
nested = unflatten(program)
print(nested)

# %% How does a layer work?
print(info(nested.model.layers[0]).code)

# %% It is the model, at other sizes too
other = torch.randint(64, (3, 7))
with torch.no_grad():
    same = torch.equal(nested(other, use_cache=False).logits, model(other, use_cache=False).logits)
print(f"logits equal, bit for bit: {same}")
if not same:
    raise SystemExit(1)


# %% Which layer matters least? Leave each out and compare
def loss_of(net: nn.Module) -> torch.Tensor:
    """Cross entropy of each next token."""
    logits = net(tokens, use_cache=False).logits
    return nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


whole = loss_of(nested).item()
for at in range(config.num_hidden_layers):
    without = bypass(nested, f"model.layers.{at}")
    print(f"without layer {at}: loss {loss_of(nested).item() - whole:+.4f}")
    without.undo()


# %% Adapters of our own on every query projection
class Adapter(nn.Module):
    """A linear layer plus a low-rank product that starts at zero."""

    def __init__(self, inner: nn.Linear, rank: int) -> None:
        super().__init__()
        self.inner = inner
        self.a = nn.Linear(inner.in_features, rank, bias=False)
        self.b = nn.Linear(rank, inner.out_features, bias=False)
        nn.init.zeros_(self.b.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer's result and the correction."""
        result: torch.Tensor = self.inner(x) + self.b(self.a(x))
        return result


for parameter in nested.parameters():
    parameter.requires_grad_(False)
paths = [name for name, part in nested.named_modules() if name.endswith("q_proj") and isinstance(part, nn.Linear)]
for path in paths:
    layer = nested.get_submodule(path)
    swap(nested, path, Adapter(layer, 4))  # type: ignore[arg-type]
trained = [parameter for parameter in nested.parameters() if parameter.requires_grad]
optimiser = torch.optim.Adam(trained, lr=0.01)
for step in range(20):
    loss = loss_of(nested)
    loss.backward()
    optimiser.step()
    optimiser.zero_grad()
    if step % 5 == 0:
        print(f"step {step}: loss {loss.item():.4f}")

# %% And back into a file
changed = Path(folder.name, "adapted.pt2")
torch.export.save(export(nested, (tokens,), {"use_cache": False}, dynamic_shapes=shapes), changed)
again = unflatten(torch.export.load(changed))
print(again.model.layers[0].self_attn.q_proj)
folder.cleanup()
