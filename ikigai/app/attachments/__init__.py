"""Attach what a message mentions: files, folders, pictures, PDFs and pages from the web."""

# Imports inside functions: pypdf in a child process alone.
