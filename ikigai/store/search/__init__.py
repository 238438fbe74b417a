"""Fill the word index in PostgreSQL, and look words up in it."""
