"""Skills: folders with instructions, which models ask for and users type."""

# Imports inside functions: a user without skills loads no yaml, and none of `front_matter` and `skill_check`.
