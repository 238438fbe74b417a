"""Pictures of the ledger: tokens and cost over time, and how full the window was from turn to turn.

`data` gathers what they show, `text_chart` draws it in a terminal or says it in words, `image_chart` makes PNG and SVG.
The terminal's are made of whole characters by hand: plotext, the library for it, takes 0.2 s and 260 modules to import,
tests and image codecs among them, and draws its own escapes.
"""
