"""This package derives what users are shown from memory and stored events."""
