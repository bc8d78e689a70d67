"""What stands for an argument that a pass removed from the program.

Decomposing a program drops operators whose results nothing uses, among them those of arguments that the called
module ignores. The call is still made as it was written. Whoever uses such an argument after all is told.
"""

from __future__ import annotations

from typing import Any, NoReturn

from unflatten.errors import UnknownSignatureError

_USES = (
    *("bool", "len", "iter", "next", "call", "getitem", "setitem", "contains", "int", "float", "index", "enter"),
    *("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "matmul", "rmatmul", "pow", "neg", "abs"),
    *("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "invert"),
)


class Removed:
    """Stands for an argument that is no longer computed; `REMOVED` is the only one. Any use of it raises."""

    __slots__ = ()

    def __getattr__(self, name: str) -> NoReturn:
        """Raises, whatever is asked for; what Python asks any object for is just not there."""
        if name.startswith("__"):
            raise AttributeError(name)
        _refuse()

    @classmethod
    def __torch_function__(cls, *_: Any, **__: Any) -> NoReturn:
        """Raises, whatever operator it is given to."""
        _refuse()

    def __repr__(self) -> str:
        return "removed"

    def __hash__(self) -> int:
        return id(self)

    def __reduce__(self) -> str:
        return "REMOVED"

    def __copy__(self) -> Removed:
        return self

    def __deepcopy__(self, memo: object) -> Removed:
        return self


def _refuse(*_: Any) -> NoReturn:
    raise UnknownSignatureError(
        "this argument is no longer a part of the program: the module that was captured does not use it, so a pass "
        "removed what computed it. Unflatten the program before it is decomposed to have it passed."
    )


for _name in _USES:
    setattr(Removed, f"__{_name}__", _refuse)

REMOVED = Removed()
