"""Recognising calls of `torch.nn` modules, and giving them back as what they were.

A recogniser proposes the arguments of a constructor; what it proposes is built on the meta device, run, and
compared with the call, operator by operator. Only what is equal comes back as a genuine instance.
"""

from unflatten.leaves import families as families
from unflatten.leaves.leaf import Leaf as Leaf
from unflatten.leaves.leaf import Operator as Operator
from unflatten.leaves.leaf import Proposal as Proposal
from unflatten.leaves.leaf import StateSpec as StateSpec
from unflatten.leaves.registry import Recogniser as Recogniser
from unflatten.leaves.registry import Registration as Registration
from unflatten.leaves.registry import register as register

__all__ = ["Leaf", "Operator", "Proposal", "Recogniser", "Registration", "StateSpec", "register"]
