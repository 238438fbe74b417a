"""What a model may do on the user's machine."""
