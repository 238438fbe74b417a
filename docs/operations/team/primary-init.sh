#!/bin/sh
# Runs once, when the primary's cluster is made: makes the role that standby and backup connect as.
# Usage: PGDATA=FOLDER POSTGRES_USER=USER POSTGRES_DB=NAME [PASSWORD_FILE=/run/secrets/replication] primary-init.sh
set -eu
password=$(cat "${PASSWORD_FILE:-/run/secrets/replication}") # ends the script if there is none
# The password goes by standard input, so that no list of processes shows it.
psql -q -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d "$POSTGRES_DB" <<SQL
create role replication with replication login password '$password';
SQL
echo "host replication replication all scram-sha-256" >> "$PGDATA/pg_hba.conf"
