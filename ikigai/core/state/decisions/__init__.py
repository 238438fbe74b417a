"""Decide which events follow from an input: the table in `decisions`, and a module for each rule."""
