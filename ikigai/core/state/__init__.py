"""Memory of an agent: the fold, the window, and the decisions."""
