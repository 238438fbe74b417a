"""Full-screen browser: of the history, and of a list to pick a row from."""
