"""This package turns blocks of a conversation into styled lines of a given width."""
