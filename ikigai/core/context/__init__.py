"""Take from the context what the window would not: turns that are condensed, and events that a filter forgets."""
