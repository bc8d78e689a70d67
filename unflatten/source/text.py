"""Names and constants as Python text. Whatever a program says goes into code as data only."""

from __future__ import annotations

import ast
import builtins
import io
import keyword
import re
import tokenize
import unicodedata
from collections.abc import Container

MODULES = frozenset({
    "torch", "nn", "F", "self", "super", "check", "require", "move_constants", "collections", "importlib", "math",
    "operator", "namedtuple",
})  # fmt: skip
"""What every written file means by these names."""
_PACKAGE = frozenset(["FILE", "Path", "json", "key_of", "load", "model", "read", "safe_open", "walk"])
"""What the file that loads a model means by these names."""
_BUILTINS = frozenset(dir(builtins))


def quoted(text: str) -> str:
    r"""A string as a literal in double quotes, of ASCII alone, as formatters write it.

    >>> print(quoted("it's"), quoted('say "hi"'))
    "it's" "say \x22hi\x22"
    """
    inner = ascii(text.replace('"', "\0quote\0"))[1:-1]
    return '"' + inner.replace("\\x00quote\\x00", "\\x22").replace("\\'", "'") + '"'


def is_plain(name: str) -> bool:
    """Whether a name can be written behind a dot inside of a class, and means itself there."""
    if not name.isidentifier() or keyword.iskeyword(name) or unicodedata.normalize("NFKC", name) != name:
        return False
    return name.isascii() and (not name.startswith("__") or name.endswith("__"))


def identifier(name: str, default: str = "x") -> str:
    """A name like another one that can be a variable's.

    >>> identifier("1x1-conv"), identifier("for"), identifier("")
    ('n1x1_conv', 'for_', 'x')
    """
    text = re.sub(r"[^0-9A-Za-z_]+", "_", name).lstrip("_" if name.startswith("__") else "") or default
    if text[0].isdigit():
        text = f"n{text}"
    return f"{text}_" if keyword.iskeyword(text) or text in MODULES or text in {"l", "O", "I"} else text


def class_name(type_name: str) -> str:
    """A name for a class from the dotted name of another.

    >>> class_name("net.Outer.<locals>.My Block"), class_name("")
    ('My_Block', 'Module')
    """
    text = re.sub(r"[^0-9A-Za-z_]+", "_", type_name.rpartition(".")[2]).strip("_") or "Module"
    if text[0].isdigit():
        text = f"N{text}"
    return f"{text}_" if keyword.iskeyword(text) or text in MODULES | _BUILTINS | _PACKAGE else text


def unused(base: str, taken: Container[str]) -> str:
    """A name that is not taken: the one given, or with a number.

    >>> unused("size", {"size", "size_2"})
    'size_3'
    """
    name, count = base, 2
    while name in taken:
        name, count = f"{base}_{count}", count + 1
    return name


def remark(text: str) -> str:
    """What may stand in a comment: printable characters of ASCII, in one line."""
    return re.sub(r"[^ -~]", "?", text).replace("'", '"')


def prose(text: str) -> str:
    """What may stand in a comment or docstring: other characters than those of names and shapes are left out."""
    return re.sub(r"[^0-9A-Za-z_.,:()\[\]*+/<>= -]", "?", text)


def canonical_strings(line: str) -> str:
    """Code with its string literals as `quoted` writes them."""
    if "'" not in line:
        return line
    pieces, at = [], 0
    for token in tokenize.generate_tokens(io.StringIO(line).readline):
        if token.type == tokenize.STRING:
            value = ast.literal_eval(token.string)
            text = quoted(value) if isinstance(value, str) else "b" + quoted(value.decode("latin-1"))
            pieces += [line[at : token.start[1]], text]
            at = token.end[1]
    return "".join([*pieces, line[at:]])
