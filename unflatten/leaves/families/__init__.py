"""The recognisers of `torch.nn`, one family a file."""

from unflatten.leaves.families import activation as activation
from unflatten.leaves.families import attention as attention
from unflatten.leaves.families import convolution as convolution
from unflatten.leaves.families import distance as distance
from unflatten.leaves.families import dropout as dropout
from unflatten.leaves.families import embedding as embedding
from unflatten.leaves.families import linear as linear
from unflatten.leaves.families import losses as losses
from unflatten.leaves.families import normalisation as normalisation
from unflatten.leaves.families import pooling as pooling
from unflatten.leaves.families import recurrent as recurrent
from unflatten.leaves.families import shaping as shaping
from unflatten.leaves.families import upsampling as upsampling
