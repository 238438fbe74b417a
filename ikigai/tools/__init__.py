"""This package holds the tools with which a model acts on the machine of the user."""
