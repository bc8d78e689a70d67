"""Names as data: what may be written into a file of any format."""

from __future__ import annotations

import html
import re

_INVALID = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What no XML file can hold: control characters, and halves of surrogate pairs."""
_SPACE = re.compile(r"[\s\u202a-\u202e\u2066-\u2069]+")
"""White space, and characters that turn the direction of what follows."""


def clean(text: str, size: int = 1000) -> str:
    r"""A text in one line, of at most a size, without characters that files can't hold.

    >>> clean("a\x00b\n c"), clean("abcdef", 4)
    ('a�b c', 'abc…')
    """
    text = text if len(text) <= size else text[: size - 1] + "\u2026"
    return _INVALID.sub("\ufffd", _SPACE.sub(" ", text))


def middle(text: str, size: int) -> str:
    """A text in one line without its middle where it is too long: names often differ at their ends.

    >>> middle("convolution_backward", 11)
    'convo\u2026kward'
    """
    text = clean(text, 10_000)
    return text if len(text) <= size else text[: size // 2] + "\u2026" + text[-(size - size // 2 - 1) :]


def escaped(text: str) -> str:
    """A text for HTML and XML, in and out of quotes."""
    return html.escape(text, quote=True)
