"""The schema of the database: how it is made, and the roles of people that have one."""
