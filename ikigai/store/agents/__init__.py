"""Agents as rows: their creation, their names, and mail that they have not received yet."""
