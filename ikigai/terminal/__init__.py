"""This package is the terminal: the only importer of prompt_toolkit and rich."""
