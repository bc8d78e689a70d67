"""Exports a transformer encoder-decoder, unflattens it, and compares the result with the original.

python docs/examples/transformer.py
"""

from __future__ import annotations

import statistics
import time

import torch
from torch import nn
from torch.export import Dim, export

from unflatten import info, unflatten

VOCABULARY, WIDTH = 8000, 256


class Translator(nn.Module):
    """Embeddings, `nn.Transformer`, and a head that shares its weight with the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.transformer = nn.Transformer(WIDTH, 8, 3, 3, 4 * WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Logits for each next token: `(batch, length)` of both sides to `(batch, length, vocabulary)`."""
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        hidden = self.transformer(self.embed(source), self.embed(target), tgt_mask=mask, tgt_is_causal=True)
        logits: torch.Tensor = self.head(hidden)
        return logits


def tokens(batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A random batch: sources of 24 tokens and targets of 20."""
    return torch.randint(VOCABULARY, (batch, 24)), torch.randint(VOCABULARY, (batch, 20))


def gradients(module: nn.Module, inputs: tuple[torch.Tensor, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The gradient of each parameter for the mean of the squared logits."""
    module.zero_grad()
    module(*inputs).square().mean().backward()
    return {name: parameter.grad.clone() for name, parameter in module.named_parameters() if parameter.grad is not None}


def same(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    """Whether two mappings have the same names, in the same order, and equal tensors."""
    return list(left) == list(right) and all(torch.equal(left[name], right[name]) for name in left)


def milliseconds(modules: list[nn.Module], inputs: tuple[torch.Tensor, torch.Tensor], repeats: int = 15) -> list[float]:
    """The median time of a call of each module, called in turns."""
    times: list[list[float]] = [[] for _ in modules]
    for _ in range(repeats):
        for module, own in zip(modules, times, strict=True):
            start = time.perf_counter()
            module(*inputs)
            own.append(1000 * (time.perf_counter() - start))
    return [statistics.median(own) for own in times]


def main() -> None:
    """Prints the hierarchy, one module's code, and the comparison."""
    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)  # the original's other kernels for inference round differently
    model = Translator().eval()
    batch = Dim("batch", min=2, max=64)
    program = export(model, tokens(2), dynamic_shapes={"source": {0: batch}, "target": {0: batch}})
    print(f"exported: one flat graph of {len(program.graph.nodes)} nodes\n")

    start = time.perf_counter()
    nested = unflatten(program)
    print(f"unflattened in {time.perf_counter() - start:.2f} s:\n\n{nested}\n")
    print(f"transformer.decoder.layers.0 runs this code:\n\n{info(nested.transformer.decoder.layers[0]).code}\n")

    inputs = tokens(5)
    print(f"outputs equal, bit for bit, at another batch size: {torch.equal(nested(*inputs), model(*inputs))}")
    expected = gradients(model, inputs)
    print(f"gradients equal, bit for bit, for {len(expected)} parameters: {same(gradients(nested, inputs), expected)}")
    print(f"state dict equal, in the same order: {same(nested.state_dict(), model.state_dict())}")
    print(f"weights still tied: {nested.head.weight is nested.embed.weight}")
    before, after = milliseconds([model, nested], inputs)
    print(f"median call: original {before:.1f} ms, unflattened {after:.1f} ms")


if __name__ == "__main__":
    main()
