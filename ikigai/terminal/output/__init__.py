"""Write the conversation to the scrollback, and draw the live area below it."""
