"""This package serves a local model by llama.cpp in a child process."""
