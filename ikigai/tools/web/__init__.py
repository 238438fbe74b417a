"""This package holds the tools that fetch pages and search the web."""
