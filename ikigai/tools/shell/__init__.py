"""This package runs commands, in the foreground and in the background, and ends them."""
