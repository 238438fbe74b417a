"""Run commands, in the foreground and in the background, and end them."""
