"""The exception family of NIR: every error that a caller can provoke derives from `NIRBridgeError`."""

from unflatten.errors import UnflattenError


class NIRBridgeError(UnflattenError):
    """Base of every error that this package raises on purpose."""


class FileError(NIRBridgeError, ValueError):
    """A file can't be read as NIR."""


class GraphError(NIRBridgeError, ValueError):
    """A graph contradicts itself: an edge without its node, no Input, no Output."""


class NodeError(NIRBridgeError, ValueError):
    """A field of a node can't be used."""


class ShapeError(NodeError):
    """Shapes of a graph, or of what is given to it, don't fit together."""


class NodeMapError(NIRBridgeError, TypeError):
    """What a node map holds, or what one of its factories made, can't be used."""


class UnmappedNodeError(NodeMapError):
    """No factory is known for the type of a node."""


class DynamicsError(NIRBridgeError, ValueError):
    """A discretisation is not one of those that there are, or too coarse for what a network does."""


class StateError(NIRBridgeError, ValueError):
    """A state is not one of the network that it was given to."""


class CallError(NIRBridgeError, TypeError):
    """A network was called with arguments that it does not take."""


class RecordError(NIRBridgeError, KeyError):
    """Nothing of that name can be recorded."""

    def __str__(self) -> str:
        return str(self.args[0])


class ExportError(NIRBridgeError, ValueError):
    """A model can't be written as a graph."""


class NoMeaningError(ExportError):
    """An operator or a module of a model has no meaning in NIR."""


class ModuleMapError(NIRBridgeError, TypeError):
    """What a module map holds, or what one of its mappers gave, can't be used."""
