"""NIR spiking-network graphs as PyTorch modules, and back. Nothing is in it yet."""
