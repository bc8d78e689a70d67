"""NIR spiking-network graphs to torch modules and back. Nothing is here yet."""
