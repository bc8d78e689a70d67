"""Calls in words, for comments: the shapes that go in and come out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from unflatten import _torch
from unflatten.calls.arguments import path_text
from unflatten.calls.known import Place
from unflatten.calls.specs import ConstantSpec, GoneSpec, NumberSpec, Spec, TensorSpec
from unflatten.source.signatures import Signature
from unflatten.source.text import remark


class Shapes:
    """Writes shapes; symbols are numbered as they come, the root's first."""

    def __init__(self) -> None:
        self.symbols: dict[str, str] = {}

    def size(self, part: Any) -> str:
        """A size."""
        if isinstance(part, int):
            return str(part)
        for symbol in sorted(part.free_symbols, key=str):
            self.symbols.setdefault(str(symbol), f"s{len(self.symbols)}")
        return _torch.python_of(part, self.symbols)

    def spec(self, spec: Spec) -> str:
        """A leaf."""
        if isinstance(spec, TensorSpec):
            return f"{str(spec.dtype).removeprefix('torch.')}[{', '.join(map(self.size, spec.shape))}]"
        if isinstance(spec, NumberSpec):
            return self.size(spec.expression)
        return "?"

    def lines(self, place: Place, signature: Signature) -> tuple[str, ...]:
        """The first call of each body of a module: what it is given and what it returns."""
        found = []
        for body in range(len(signature.names)):
            call = next((call for call in place.calls if call.body == body), None)
            if call is None:
                found.append("")
                continue
            given = [
                f"{signature.renamed[name]}{path_text(access)}: {self.spec(spec)}"
                for name, access, spec in call.arguments.leaves()
                if isinstance(spec, TensorSpec | NumberSpec) and name in signature.used[body]
            ]
            found.append(remark(f"{', '.join(given)} -> {self.results(call.results)}"))
        return tuple(found)

    def results(self, specs: Iterable[Spec]) -> str:
        """What a call returns."""
        return (
            ", ".join(self.spec(spec) for spec in specs if not isinstance(spec, ConstantSpec | GoneSpec)) or "nothing"
        )
