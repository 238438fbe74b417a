"""Secrets: variables that hold them, the formats of tokens, and their redaction."""
