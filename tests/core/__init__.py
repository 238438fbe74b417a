"""Tests of the core: no IO, no clock, no network."""
