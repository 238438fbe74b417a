"""This package fills the word index in PostgreSQL and looks words up in it."""
