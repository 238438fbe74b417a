"""Export and import of histories: /export, `ikigai history export` and `ikigai history import`.

command     what is asked for: options, names of files, ranges; how far it is
files       a file that is there whole or not at all
interchange the format that is imported again: JSON and JSONL, written
intake      the same, read: nothing of a file is believed
markdown    for reading as text
html        for reading in a browser
story       what the last two tell of an event
"""
