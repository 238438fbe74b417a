"""This package turns text into index words, parses queries and cuts snippets."""
