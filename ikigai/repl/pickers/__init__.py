"""Lists from which the user picks an agent, a model or a mark."""
