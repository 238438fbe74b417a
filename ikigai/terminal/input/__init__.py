"""This package edits the input line: keys, completion, pastes and the search of earlier prompts."""
