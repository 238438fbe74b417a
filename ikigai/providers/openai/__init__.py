"""This package speaks OpenAI's Chat Completions and Responses APIs."""
