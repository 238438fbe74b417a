"""Talk to models: one folder per vendor, whose SDK is imported only there and only when it is used."""

# Imports inside functions: an SDK takes up to two seconds, so only the model's own is loaded, behind the prompt.
#   anthropic, openai, google, httpx, httpx2    the vendor's folder
#   local, machine_servers                      models of this machine
