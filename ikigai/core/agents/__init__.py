"""This package says how agents form a tree, send mail and start agents of their own."""
