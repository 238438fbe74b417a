"""Texts: what is safe to draw and to store, what looks alike, and how many tokens they take."""
