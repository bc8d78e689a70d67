"""Lines of Python as formatters break them: at most 88 characters, in the one way that black and ruff agree on.

Only what the writer writes has to be broken: a call, a tuple, a list or a dict at the end of a statement. What can't
be broken so is told to be left alone.
"""

from __future__ import annotations

import ast
import keyword
import re

from unflatten.source.text import canonical_strings

WIDTH = 88
_PAIRS = {"(": ")", "[": "]", "{": "}"}
_POWER = re.compile(r"(?<![\w.)\]])(\w[\w.]*) \*\* (-?\w[\w.]*)(?![\w.(\[])")
_GETATTR = re.compile(r'getattr\(\S+, ("(?:[^"\\]|\\.)*")\)')
_NAME_END = re.compile(r"[\w\])]$")


def layout(line: str, indent: int = 0) -> list[str]:
    r"""A statement as lines.

    Args:
        line: the statement, in one line.
        indent: by how many characters it is indented.

    >>> print("\n".join(layout("x = self.some_layer(" + ", ".join(["argument"] * 7) + ")", 4)))
        x = self.some_layer(
            argument, argument, argument, argument, argument, argument, argument
        )
    """
    line = _marked(_hugged(canonical_strings(line)))
    if indent + len(line.partition("  # noqa")[0]) <= WIDTH:
        return [" " * indent + line]
    try:
        return _broken(line, indent, "")
    except _UnbreakableError:
        return [f"{' ' * indent}{line}  # fmt: skip"]


def _hugged(line: str) -> str:
    """A line with no spaces around `**` between simple operands."""
    return _POWER.sub(r"\1**\2", line) if " ** " in line else line


def _marked(line: str) -> str:
    """A line with a note where linters take a name for one that could be written behind a dot."""
    for match in _GETATTR.finditer(line):
        name = ast.literal_eval(match[1])
        if name.isidentifier() and not keyword.iskeyword(name) and not (name.startswith("__")):
            return f"{line}  # noqa: B009"
    return line


class _UnbreakableError(Exception):
    pass


def _broken(line: str, indent: int, suffix: str) -> list[str]:
    """A text that is too long for one line, broken at its last brackets."""
    pad = " " * indent
    if line.startswith("return ") and len(_split(line[7:])) > 1:
        return [f"{pad}return (", *_each(_split(line[7:]), indent + 4), f"{pad}){suffix}"]
    colon = ":" if line.endswith("):") else ""
    start = _last_bracket(line.removesuffix(":") if colon else line)
    head, body = line[: start + 1], line[start + 1 : -1 - len(colon)]
    is_call = line[start] == "(" and bool(_NAME_END.search(line[:start]))
    if line[start] == "[" and _NAME_END.search(line[:start]):
        raise _UnbreakableError
    if len(pad + head) > WIDTH or len(re.findall(r"[\])]\.\w", head)) > 1 or "(" in head[:-1].replace("((", ""):
        raise _UnbreakableError
    tail = f"{pad}{_PAIRS[line[start]]}{colon}{suffix}"
    items = _split(body)
    if is_call and indent + 4 + len(body) <= WIDTH:
        return [pad + head, f"{pad}    {body}", tail]
    if line[start] == "[" and len(items) == 1 and " for " in body:
        element, _, loop = body.rpartition(" for ")
        return [pad + head, *_fitted(element, indent + 4, ""), f"{pad}    for {loop}", tail]
    return [pad + head, *_each(items, indent + 4), tail]


def _each(items: list[str], indent: int) -> list[str]:
    return [line for item in items for line in _fitted(item, indent, ",")]


def _fitted(item: str, indent: int, suffix: str) -> list[str]:
    if indent + len(item) + len(suffix) <= WIDTH:
        return [f"{' ' * indent}{item}{suffix}"]
    return _broken(item, indent, suffix)


def _last_bracket(line: str) -> int:
    """Where the bracket opens that closes at the end of a line."""
    opened: list[int] = []
    last = -1
    for at, char in _outside_strings(line):
        if char in _PAIRS:
            opened.append(at)
        elif char in ")]}":
            last = opened.pop()
            if at == len(line) - 1:
                return last
    raise _UnbreakableError


def _split(text: str) -> list[str]:
    """The parts between commas that are in no brackets."""
    parts, depth, start = [], 0, 0
    for at, char in _outside_strings(text):
        if char in _PAIRS:
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    rest = text[start:].strip()
    return [*parts, rest] if rest else parts


def _outside_strings(line: str) -> list[tuple[int, str]]:
    found, inside, escaped = [], False, False
    for at, char in enumerate(line):
        if inside:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                inside = False
        elif char == '"':
            inside = True
        else:
            found.append((at, char))
    return found
