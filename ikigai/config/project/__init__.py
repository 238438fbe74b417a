"""Files and settings that a project brings, and the folders that the user trusts."""
