"""This package speaks Google's Gemini API."""
