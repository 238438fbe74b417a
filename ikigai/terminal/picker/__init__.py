"""This package lets the user pick one row of a list, on the terminal's alternate screen."""
