"""Talk to models: one folder per vendor, whose SDK is imported only there and only when it is used."""

# Imports inside functions: an SDK takes up to two seconds, so only the model's own is loaded, behind the prompt.
#   anthropic, openai, google, httpx, httpx2, ssl    the vendor's folder, and the connection
#   genai_prices                                     the price of the first request
#   copy, datetime                                   a price of one's own, and of a day
#   email                                            the seconds to wait that a server names
#   local, machine_servers                           models of this machine
