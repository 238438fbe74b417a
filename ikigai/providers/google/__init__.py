"""Speak Google's Gemini API."""
