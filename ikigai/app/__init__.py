"""This package puts the other packages together and manages many agents in one program."""
