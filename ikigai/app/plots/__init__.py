"""Draw plots of the ledger: tokens and cost over time, and the size of the window from turn to turn.

`data` gathers the data, `text_chart` draws it in a terminal or describes it in words. Charts are drawn here with
characters: the library plotext takes 0.2 s and 260 modules to import, tests and image codecs among them, and writes its
own escapes.
"""
