"""Turn the bytes of a terminal into key presses."""
