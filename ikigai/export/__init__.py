"""Export and import of histories: /export, `ikigai history export` and `ikigai history import`.

atomic_file       a file that is there whole or not at all
json_export       the format that is imported again: JSON and JSONL, written
json_import       the same, read: nothing of a file is believed
checksum          what tells that a file is as it was written
markdown          for reading as text
html, html_style  for reading in a browser
transcript_items  what the last two tell of an event
"""
