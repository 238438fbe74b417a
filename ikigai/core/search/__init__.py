"""Turn text into index words, parse queries and cut snippets."""
