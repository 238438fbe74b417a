#!/bin/sh
# Backs up a PostgreSQL server until it is stopped: all log as it is written, and a copy of the whole every day.
# Usage: BACKUP_FROM="host=... user=replication" [PASSWORD_FILE=FILE] [KEEP_DAYS=14] backup.sh FOLDER
# FOLDER/base/TIME holds the copies, FOLDER/wal the log. restore-drill.sh restores the newest state of both.
set -eu
umask 077
folder=$1
keep_days=${KEEP_DAYS:-14}
if [ -n "${PASSWORD_FILE:-}" ]; then
  PGPASSWORD=$(cat "$PASSWORD_FILE")
  export PGPASSWORD
fi
mkdir -p "$folder/base" "$folder/wal"

receive() {
  child=
  trap 'kill "$child" 2>/dev/null; exit' TERM
  while :; do
    # The slot keeps what is not backed up yet while this program or the network is away.
    if pg_receivewal -d "$BACKUP_FROM" --slot backup --create-slot --if-not-exists; then
      pg_receivewal -d "$BACKUP_FROM" --slot backup -D "$folder/wal" --synchronous --no-loop &
      child=$!
      wait "$child" || true
    fi
    sleep 5 &
    child=$!
    wait "$child" || true
  done
}

copy() {
  name=$(date -u +%Y%m%dT%H%M%SZ)
  rm -rf "$folder"/base/*.new # of copies that were interrupted
  pg_basebackup -d "$BACKUP_FROM" -D "$folder/base/$name.new" --checkpoint=fast || return
  pg_verifybackup -q "$folder/base/$name.new" || return
  mv "$folder/base/$name.new" "$folder/base/$name"
  echo "backup.sh: $name is complete"
  # The newest copy stays whatever its age. Log that no copy needs any more goes.
  ls "$folder/base" | sort -r | tail -n +2 | while read -r old; do
    [ -z "$(find "$folder/base/$old" -maxdepth 0 -mtime "+$keep_days")" ] || rm -rf "${folder:?}/base/$old"
  done
  oldest=$(ls "$folder/base" | sort | head -n 1)
  first=$(sed -n 's/^START WAL LOCATION:.*file \([0-9A-F]*\)).*/\1/p' "$folder/base/$oldest/backup_label")
  pg_archivecleanup "$folder/wal" "$first"
}

receive &
receiver=$!
pause=
trap 'kill "$receiver" $pause 2>/dev/null; exit 0' TERM INT HUP
while :; do
  seconds=86400
  copy || {
    echo "backup.sh: the copy failed; the next try is in a minute" >&2
    seconds=60
  }
  sleep "$seconds" &
  pause=$!
  wait "$pause" || true
done
