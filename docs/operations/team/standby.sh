#!/bin/sh
# Runs a hot standby in the foreground. The first run copies the primary; later ones go on.
# Usage: PGDATA=FOLDER PRIMARY_HOST=HOST [PRIMARY_PORT=5432] [PASSWORD_FILE=FILE] standby.sh [OPTION OF postgres ...]
set -eu
umask 077
primary="host=$PRIMARY_HOST port=${PRIMARY_PORT:-5432} user=replication application_name=standby"
if [ -n "${PASSWORD_FILE:-}" ]; then
  PGPASSWORD=$(cat "$PASSWORD_FILE")
  export PGPASSWORD
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  mkdir -p "$(dirname "$PGDATA")"
  rm -rf "$PGDATA.new" # of a copy that was interrupted
  # An earlier copy may have made the slot already.
  pg_basebackup -d "$primary" -D "$PGDATA.new" -R -S standby --create-slot --checkpoint=fast ||
    { rm -rf "$PGDATA.new" && pg_basebackup -d "$primary" -D "$PGDATA.new" -R -S standby --checkpoint=fast; }
  # The image may have made this folder. It is empty, or the removal fails and so does the start.
  [ ! -d "$PGDATA" ] || rmdir "$PGDATA"
  mv "$PGDATA.new" "$PGDATA"
fi
unset PGPASSWORD
exec postgres -D "$PGDATA" "$@"
