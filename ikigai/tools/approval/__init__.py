"""This package decides whether a tool call may run, and asks the user where it must."""
