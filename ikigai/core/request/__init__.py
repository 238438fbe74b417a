"""Build the request to a model from memory, and the reply from a stream."""
