"""Serve a local model with llama.cpp in a child process."""
