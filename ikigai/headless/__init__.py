"""This package answers once without a screen: print mode."""
