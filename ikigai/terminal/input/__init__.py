"""Edit the input line: keys, completion, pastes and the search of earlier prompts."""
