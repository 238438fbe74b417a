"""Speak Anthropic's Messages API."""
