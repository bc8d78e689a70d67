"""Text from files, made fit for a terminal."""

from __future__ import annotations


def clean(text: str) -> str:
    r"""Text without characters that do something to a terminal, or that hide: they are spelled out.

    >>> print(clean("a\x1b[2Jb\u202ec"))
    a\x1b[2Jb\u202ec
    >>> clean("two\nlines") == "two\nlines"
    True
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each == "\n" else _spelled(each) for each in text)


def one_line(text: str) -> str:
    r"""The same, on one line.

    >>> print(one_line("two\nlines"))
    two\nlines
    """
    return clean(text).replace("\n", "\\n")


def _spelled(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
