"""ikigai: one lasting conversation with any large language model, kept in PostgreSQL."""

__version__ = "0.1.0"
