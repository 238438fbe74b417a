"""This package turns what a terminal sends into key presses."""
