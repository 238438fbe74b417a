"""Select the turns and events that a filter removes from the context or restores."""
