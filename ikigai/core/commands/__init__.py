"""This package describes the slash commands as data and parses what is typed behind them."""
