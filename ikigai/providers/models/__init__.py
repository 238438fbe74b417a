"""Describe models: their limits, their lists and their prices."""

# Imports inside functions:
#   genai_prices      the price of the first request
#   copy, datetime    a price of one's own, and of a day
