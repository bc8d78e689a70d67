"""The exception family: every error that a caller can provoke derives from `UnflattenError`."""

from collections.abc import Iterable


class UnflattenError(Exception):
    """Base of every error that this package raises on purpose."""


class ProgramError(UnflattenError, ValueError):
    """The program can't be read: what it says about itself is contradictory or incomplete."""


class NotAProgramError(UnflattenError, TypeError):
    """Something other than a `torch.export.ExportedProgram` was given."""


class JointProgramError(ProgramError):
    """The program holds a backward graph too, which has no nested form that runs eagerly."""


class SignatureMismatchError(ProgramError):
    """The graph and the graph signature of a program disagree."""


class GraphOrderError(ProgramError):
    """The nodes of a graph are not in an order in which they can run."""


class MissingStateError(ProgramError):
    """A parameter, buffer or constant that the program names has no value."""


class ProgramFileError(UnflattenError, ValueError):
    """A file can't be read as an exported program."""


class UntrustedFileError(ProgramFileError):
    """A file could run code of its writer's as it is loaded or as its program runs; `trust=True` loads it still."""


class InputError(UnflattenError, ValueError):
    """The arguments of a call are not ones that the program was captured for."""


class UnknownCallError(InputError):
    """A module was used alone in a way in which the program never called it."""


class UnknownSignatureError(UnflattenError, TypeError):
    """The program does not say how a module was called, and the answer matters."""


class ModeError(UnflattenError, RuntimeError):
    """`train()` or `eval()` asks for a mode that the captured operators can't take."""


class UnlikeError(UnflattenError, ValueError):
    """The model that a program is said to be like has other modules than the program."""


class NotRecordableError(UnflattenError, ValueError):
    """Calls can't be recorded in the way of exporting that was asked for."""


class RewriteError(UnflattenError, ValueError):
    """A module or node can't be replaced or left out as asked; everything is left as it was."""


class UnknownPathError(RewriteError):
    """There is no module of that path, or no node of that name."""


class NotAModuleError(RewriteError, TypeError):
    """What is to stand in for a module is none."""


class BypassError(RewriteError):
    """A result has no input of the same structure, or leaving the module or node out would change something else."""


class AmbiguousBypassError(BypassError):
    """Several inputs have the structure of a result; `using` chooses."""


class DrawingError(UnflattenError, RuntimeError):
    """A drawing could not be made."""


class MissingToolError(DrawingError):
    """A program that draws is not installed."""


class NotDrawableError(UnflattenError, TypeError):
    """Something was given that has no graph to draw."""


class SourceError(UnflattenError, ValueError):
    """A module can't be written as source, or a folder holds none; nothing is written."""


class FolderError(SourceError, OSError):
    """There is something else in the folder, or no written package."""


class ViewError(UnflattenError, ValueError):
    """A view can't do what it is asked to with this graph."""


class EmptySelectionError(ViewError, LookupError):
    """Nothing in the graph is as asked for."""


class IllegalMoveError(ViewError):
    """Nodes can't be moved as asked: a value, a write or the order of effects forbids it; nothing is changed."""


class DifferenceError(UnflattenError, AssertionError):
    """Two things that a test says are the same differ.

    Attributes:
        differences: everything in which they differ.
        script: Python that shows the difference again.
    """

    def __init__(self, message: str, differences: Iterable[object] = (), script: str = "") -> None:
        super().__init__(message)
        self.differences = tuple(differences)
        self.script = script


class UnknownFeatureError(UnflattenError, TypeError):
    """A strategy was told to switch something on or off that it does not know."""


class StructureError(UnflattenError, RuntimeError):
    """A value of this package contradicts itself: a fault here, not of the caller."""


def listing(items: Iterable[object], limit: int = 8) -> str:
    """The first `limit` items, one a line, and how many were left out.

    >>> print(listing(["a", "b", "c"], limit=2))
      - a
      - b
      ... and 1 more
    """
    lines = [f"  - {item}" for item in items]
    rest = len(lines) - limit
    return "\n".join(lines[:limit] + ([f"  ... and {rest} more"] if rest > 0 else []))
