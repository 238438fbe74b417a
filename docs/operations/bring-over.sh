#!/usr/bin/env bash
# Bring the conversations of an older ikigai over: the version that wrote them exports them, the present one imports them.
#
#   bring-over.sh OLD FOLDER
#
# OLD is a checkout or a wheel of that version. It is installed into FOLDER, next to the exports. Both versions use the
# database that your configuration and environment name. The old tables stay, in a schema with "_before" behind its name.
# Close every ikigai first. When a step fails, run the same line again: it goes on with that step.
set -euo pipefail

old=${1:?usage: bring-over.sh OLD FOLDER} folder=${2:?usage: bring-over.sh OLD FOLDER}
if [ ! -e "$old" ]; then  # pip would take the name for that of a package
  echo "There is no file or folder $old." >&2
  exit 1
fi
old=$(realpath -- "$old")
mkdir -p "$folder"
chmod 700 "$folder"
python=$folder/old/bin/python

old_ikigai() { env -u PYTHONPATH "$folder/old/bin/ikigai" "$@"; }
new_ikigai() { ${IKIGAI:-ikigai} "$@"; }
done_before() { [ -e "$folder/$1.done" ]; }
finish() { touch "$folder/$1.done"; }

if ! done_before install; then
  python3 -m venv "$folder/old"
  "$python" -m pip install --quiet "$old"
  finish install
fi

if ! done_before export; then
  old_ikigai db status --json >"$folder/status.json"
  old_ikigai agents list --all --everyone --json >"$folder/agents.json"
  "$python" -c 'import json, sys
for number, agent in enumerate(json.load(open(sys.argv[1]))["agents"]):
    print(f"{number:06}", agent["agent_id"], agent["agent"])' "$folder/agents.json" >"$folder/agents.txt"
  rm -f "$folder"/*.jsonl
  while read -r number id name; do
    if ! told=$(old_ikigai history export --agent "$id" -o "$folder/$number.jsonl" 2>&1 </dev/null); then
      case $told in
        *"has no events"*) continue ;;
        *) echo "$name was not exported: $told" >&2 && exit 1 ;;
      esac
    fi
  done <"$folder/agents.txt"
  finish export
fi

schema=$("$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["schema"])' "$folder/status.json")
if ! done_before move; then
  rename="alter schema \"$schema\" rename to \"${schema}_before\""
  if ! told=$(old_ikigai db psql --quiet --set=ON_ERROR_STOP=1 -c "$rename" 2>&1 </dev/null); then
    case $told in
      *"no tables of ikigai"*) ;;  # an earlier run ended right behind the renaming
      *) echo "The schema $schema was not renamed: $told" >&2 && exit 1 ;;
    esac
  fi
  finish move
fi

if ! done_before import; then
  shopt -s nullglob
  files=("$folder"/*.jsonl)
  if [ ${#files[@]} -gt 0 ]; then new_ikigai history import "${files[@]}"; fi
  finish import
fi

# An export holds the events of an agent. What the lists need beside them comes from the old list, once: what was revived
# or used since then stays so.
if ! done_before lists; then
  "$python" - "$folder/agents.json" >"$folder/lists.sql" <<'END'
import json, sys

def text(value):
    return "'" + value.replace("'", "''") + "'"

for agent in json.load(open(sys.argv[1]))["agents"]:
    used = "timestamptz " + text(agent["last_used_at"])
    states = "".join(f", {key}_at = {used}" for key in ("archived", "killed") if agent[key])
    print(f"update agents set last_used_at = {used}{states} where name = {text(agent['agent'])};")
END
  new_ikigai db psql --quiet --set=ON_ERROR_STOP=1 --single-transaction -f "$folder/lists.sql" </dev/null
  finish lists
fi

echo "The old tables are in the schema ${schema}_before. When you miss nothing, remove them and $folder:"
echo "ikigai db psql -c 'drop schema \"${schema}_before\" cascade'"
