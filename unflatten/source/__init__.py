"""Models as Python packages: written, and loaded again."""

from unflatten.source.writing import load as load
from unflatten.source.writing import text_of as text_of
from unflatten.source.writing import write as write

__all__ = ["load", "text_of", "write"]
