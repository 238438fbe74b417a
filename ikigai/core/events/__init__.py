"""Events, which are all that is stored: the messages and blocks in them, and their form as rows."""
