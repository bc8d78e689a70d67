from unflatten.leaves.families import linear as linear
