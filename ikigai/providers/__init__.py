"""This package talks to models: one folder per vendor, whose SDK is imported only there and only when it is used."""
