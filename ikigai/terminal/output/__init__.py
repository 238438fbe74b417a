"""This package writes the conversation to the scrollback and draws the live area below it."""
