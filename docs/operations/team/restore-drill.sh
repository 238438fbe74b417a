#!/bin/sh
# Restores the newest state of a backup beside everything else, looks at it, and removes it again.
# Usage: [PGUSER=postgres] [PGDATABASE=ikigai] [SCHEMA=ikigai] restore-drill.sh FOLDER
# FOLDER is that of backup.sh. Prints how much was restored, and how new it is. The exit code is 1 if nothing was.
set -eu
umask 077
folder=$(cd "$1" && pwd)
export PGUSER="${PGUSER:-postgres}" PGDATABASE="${PGDATABASE:-ikigai}"
schema=${SCHEMA:-ikigai}
unset PGHOST PGHOSTADDR PGSERVICE

newest=$(ls "$folder/base" | grep -v '\.new$' | sort | tail -n 1)
[ -n "$newest" ] || { echo "restore-drill.sh: $folder/base holds no copy" >&2; exit 1; }
# It was verified when it was made; a disk can lose something later.
pg_verifybackup -q "$folder/base/$newest" || { echo "restore-drill.sh: $newest is damaged" >&2; exit 1; }
work=$(mktemp -d "${TMPDIR:-/tmp}/drill.XXXXXX")
trap 'pg_ctl -D "$work/data" -m immediate stop >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
trap 'exit 1' TERM INT HUP

cp -a "$folder/base/$newest" "$work/data"
chmod 700 "$work/data"
rm -f "$work/data/standby.signal"
touch "$work/data/recovery.signal"
echo "local all all trust" >"$work/pg_hba.conf"
# The log that was being written has another name until it is full.
cat >"$work/fetch" <<END
#!/bin/sh
cp "$folder/wal/\$1" "\$2" 2>/dev/null || cp "$folder/wal/\$1.partial" "\$2" 2>/dev/null
END
# The last lines win. The server listens on a socket in this private folder alone.
cat >>"$work/data/postgresql.auto.conf" <<END
listen_addresses = ''
port = 5432
unix_socket_directories = '$work'
hba_file = '$work/pg_hba.conf'
restore_command = 'sh "$work/fetch" %f "%p"'
recovery_target_timeline = 'latest'
primary_conninfo = ''
primary_slot_name = ''
synchronous_standby_names = ''
archive_mode = off
ssl = off
END
export PGHOST="$work" PGPORT=5432
fail() {
  tail -n 20 "$work/log" >&2
  exit 1
}
pg_ctl -D "$work/data" -l "$work/log" -w -t 600 start >/dev/null || fail
# It answers before it has read all of the log, and may end at what comes then.
until [ "$(psql -XAtqc 'select pg_is_in_recovery()')" = f ]; do
  pg_ctl -D "$work/data" status >/dev/null || fail
  sleep 0.2
done

ask() { psql -XAtq -v ON_ERROR_STOP=1 -v schema="$schema"; }
events=$(echo 'select count(*) from :"schema".messages' | ask)
[ "$events" -gt 0 ] || { echo "restore-drill.sh: $newest holds no events" >&2; exit 1; }
agents=$(echo 'select count(*) from :"schema".agents' | ask)
last=$(echo "select to_char(max(created_at) at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') from :\"schema\".messages" | ask)
echo "Restored $newest and the log behind it: $agents agents, $events events, the newest of $last."
