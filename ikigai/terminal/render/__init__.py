"""Turn blocks of a conversation into styled lines of a given width."""
