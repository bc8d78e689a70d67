"""Models as Python packages: written, and loaded again."""

from unflatten.source.writing import Tree as Tree
from unflatten.source.writing import load as load
from unflatten.source.writing import text_of as text_of
from unflatten.source.writing import write as write

__all__ = ["Tree", "load", "text_of", "write"]
