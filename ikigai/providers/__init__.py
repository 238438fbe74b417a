"""Models: one file per vendor, each SDK imported only there and only when it is used."""
