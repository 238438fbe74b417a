"""ikigai: one conversation with large language models that never ends, kept in PostgreSQL."""

__version__ = "0.1.0"
