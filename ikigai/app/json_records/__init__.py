"""Every JSON object that the program prints: one object a line, its kind in `type`.

The schema in docs/reference/json-schema.json is made from these classes, see tests/support/json_schema.py. Exported
histories are not among them: `ikigai.export.json_export` defines their format.

Every object has the same dialect: compact, UTF-8, characters escaped that a terminal would obey. `agent` is the name of
an agent and `agent_id` its id. Times are in UTC, as RFC 3339 writes them; amounts of money are exact.
"""
