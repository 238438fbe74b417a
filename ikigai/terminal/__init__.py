"""The terminal: the only importer of prompt_toolkit and rich."""

# Imports inside functions: the first screen has a prompt and a status line, so it loads no renderer and no dialog.
#   render (pygments, markdown-it, rich)              the first text in Markdown, code or colors
#   browser, pager, editor, clipboard                 the key that opens it
#   screen_reader, dumb_painter, vi                   the setting or terminal that asks for it
#   difflib                                           the first diff
