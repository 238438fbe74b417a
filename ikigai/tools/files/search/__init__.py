"""Tools that find files and lines: names by globs, lines by regular expressions, lists of folders."""
