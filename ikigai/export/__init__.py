"""Export and import histories: /export, `ikigai history export` and `ikigai history import`.

json_export       the format that can be imported again: JSON and JSONL, written
json_import       that format, read: nothing of a file is believed
checksum          the proof that a file is as it was written
markdown          for reading as text
html, page.css    for reading in a browser
transcript_items  the text of events in the last two
"""
