"""A training graph, seen by module: costs, collectives of the backward, and a move that is checked.

Cells for an editor that knows `# %%`; as a script: python docs/examples/training_graph.py.
"""

# %% A training step, captured as one graph of forward and backward
from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from unflatten import GraphView, UnflattenError, record

torch.manual_seed(0)
model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 3, enable_nested_tensor=False)
model.eval()
x = torch.randn(2, 5, 16)
names, params = zip(*model.named_parameters(), strict=True)


def step(x: torch.Tensor, params: list[torch.Tensor]) -> Any:
    """The loss and the gradient of each parameter."""
    given = dict(zip(names, params, strict=True))
    loss = torch.func.functional_call(model, given, (x,)).square().mean()
    return loss, *torch.autograd.grad(loss, params)


with record(model):
    module = make_fx(step)(x, list(params))
print(f"{len(module.graph.nodes)} nodes")

# %% The same as modules
view = GraphView(module, {f"params_{at}": name for at, name in enumerate(names, 1)})
print(view)

# %% What each module costs, forward and backward; equal layers are one line
print(view.root.costs())

# %% What the first layer keeps for its backward
for port in view.layers[0].forward.outputs:
    print(port)

# %% Who owns the nodes of the backward, and how we know
for node in view.layers[0].linear1.backward.nodes:
    print(f"{node.name:12} {view.owner(node)}")

# %% Bring the weight transposes of layer 1 to the front of layer 0
before = module(x, list(params))
weights = view.find(path="layers.1.linear1", op="aten.t", phase="forward")
moved = view.layers[0].forward.hoist(weights)
print("moved:", [node.name for node in moved])
module.recompile()
after = module(x, list(params))
if not all(torch.equal(one, other) for one, other in zip(before, after, strict=True)):
    raise SystemExit("the move changed a value")

# %% What can't be moved is refused, with the reason
try:
    view.layers[0].forward.hoist(view.find(path="layers.1", op="relu", phase="forward"))
except UnflattenError as refusal:
    print(refusal)
