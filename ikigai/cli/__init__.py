"""This package parses the command line, runs the subcommands and chooses exit codes."""
