"""Models to choose from: the list with their limits and prices, and servers found on this machine."""
