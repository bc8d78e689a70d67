"""The recognisers of `torch.nn`, one family a file."""

from unflatten.leaves.families import activation as activation
from unflatten.leaves.families import convolution as convolution
from unflatten.leaves.families import dropout as dropout
from unflatten.leaves.families import embedding as embedding
from unflatten.leaves.families import linear as linear
from unflatten.leaves.families import normalisation as normalisation
