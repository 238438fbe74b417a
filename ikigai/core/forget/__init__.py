"""This package selects the turns and events that a filter takes out of the context or puts back."""
