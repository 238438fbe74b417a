"""This package speaks Anthropic's Messages API."""
