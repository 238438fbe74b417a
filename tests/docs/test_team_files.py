"""The files for a team's servers in containers: what `compose.yaml` names is there, and the scripts know it.

The containers themselves cannot be started here. `tests/e2e/test_team_servers.py` runs the scripts, and the servers
with the options that `compose.yaml` gives them.
"""

import os
import re
import shlex

import pytest
import yaml

from tests import ROOT

FOLDER = ROOT / "docs" / "operations" / "team"
TEXT = (FOLDER / "compose.yaml").read_text()
COMPOSE = yaml.safe_load(TEXT)
SERVICES = COMPOSE["services"]
PAGE = (ROOT / "docs" / "operations" / "team.md").read_text()
OF_THE_IMAGE = {"PGDATA", "POSTGRES_USER", "POSTGRES_DB"}
"""Variables that the image sets in each container, or for the scripts that it runs when it has made the primary."""
OF_LIBPQ = {"PGPASSWORD", "PGHOST", "PGHOSTADDR", "PGPORT", "PGUSER", "PGDATABASE", "PGSERVICE"}


def mounts(service: str) -> dict[str, str]:
    """Return the paths in a container, each with the file beside `compose.yaml`, or the volume, that is there."""
    return {path: source for source, path, *_ in (each.split(":") for each in SERVICES[service]["volumes"])}


def script_of(service: str) -> str:
    """Return the name of the script that a container runs: its program, or what the image runs for a new primary."""
    if "entrypoint" in SERVICES[service]:
        shell, path, *_ = SERVICES[service]["entrypoint"]
        assert shell == "sh"
        return mounts(service)[path]
    ((_, source),) = [each for each in mounts(service).items() if each[0].startswith("/docker-entrypoint-initdb.d/")]
    assert os.access(FOLDER / source, os.X_OK), "else the image's own script would read it, and get its options"
    return source


def variables_of(script: str) -> dict[str, bool]:
    """Return the variables that a script takes from outside, each with True if it does without."""
    text = re.sub(r"(?m)^\s*#.*|\\\$\w+|'[^'\n]*'", "", (FOLDER / script).read_text())
    named = re.findall(r"\$\{?([A-Z_]+)(:-)?", text)
    return {name: any(has for other, has in named if other == name) for name, _ in named}


@pytest.mark.parametrize("service", SERVICES)
def test_service_finds_its_files_volumes_and_secrets(service: str) -> None:
    for source in mounts(service).values():
        assert (FOLDER / source).is_file() if source.startswith("./") else source in COMPOSE["volumes"], source
    for secret in SERVICES[service]["secrets"]:
        assert secret in COMPOSE["secrets"]
    for name, value in SERVICES[service]["environment"].items():
        assert not name.endswith("_FILE") or value.removeprefix("/run/secrets/") in SERVICES[service]["secrets"]
    for other, needed in SERVICES[service].get("depends_on", {}).items():
        assert needed == {"condition": "service_healthy"} and "healthcheck" in SERVICES[other]


@pytest.mark.parametrize("service", SERVICES)
def test_service_gives_its_script_what_that_needs_and_nothing_else(service: str) -> None:
    script, given = script_of(service), {*SERVICES[service]["environment"]}
    taken = {name: is_optional for name, is_optional in variables_of(script).items() if name not in OF_LIBPQ}
    for name, is_optional in taken.items():
        assert name in given | OF_THE_IMAGE or is_optional, f"{script} needs {name}"
    for name in given - OF_THE_IMAGE - {"POSTGRES_PASSWORD_FILE"}:
        assert name in taken, f"{script} knows no {name}"
        usage = re.findall(r"(?m)^# Usage: (.*)", (FOLDER / script).read_text())[0]
        assert f"{name}=" in usage
    for name in re.findall(r"([A-Z_]+)=", re.findall(r"(?m)^# Usage: (.*)", (FOLDER / script).read_text())[0]):
        assert name in taken or name in OF_LIBPQ, f"{script} takes no {name}"


def test_servers_are_reached_by_the_names_of_their_services() -> None:
    backup = dict(part.split("=") for part in shlex.split(SERVICES["backup"]["environment"]["BACKUP_FROM"]))
    assert backup["host"].split(",") == ["primary", "standby"] and backup["target_session_attrs"] == "read-write"
    assert SERVICES["standby"]["environment"]["PRIMARY_HOST"] == "primary"
    role = re.findall(r"create role (\w+)", (FOLDER / "primary-init.sh").read_text())
    assert role == [backup["user"]] and f"user={role[0]} " in (FOLDER / "standby.sh").read_text()


def test_secrets_are_made_by_the_commands_at_the_top() -> None:
    (names,) = re.findall(r"for name in ([\w ]+); do openssl rand -hex 24 > secrets/\$name;", TEXT)
    assert {name: {"file": f"./secrets/{name}"} for name in names.split()} == COMPOSE["secrets"]
    (read,) = re.findall(r"PASSWORD_FILE:-/run/secrets/(\w+)", (FOLDER / "primary-init.sh").read_text())
    assert read in SERVICES["primary"]["secrets"]


def test_variables_of_the_containers_have_a_default_and_are_on_the_page() -> None:
    used = re.findall(r"\$\{(\w+)(:-)?", TEXT)
    assert used
    for name, default in used:
        assert default and f"`{name}=" in PAGE


def test_commands_on_the_page_name_what_is_in_the_containers() -> None:
    lines = re.findall(r"(?m)^docker compose (\w+) (\w+) ?(.*)$", PAGE)
    assert {verb for verb, *_ in lines} == {"stop", "exec"}
    for verb, service, command in lines:
        assert service in SERVICES
        words = command.split()
        if verb == "exec" and words[0] == "sh":
            assert words[1] in mounts(service)
            assert words[2:] == SERVICES[service]["entrypoint"][2:], "the folder of the backup"
            assert any(words[2].startswith(f"{path}/") for path in mounts(service)), "it is in a volume"


def test_scripts_are_on_the_page_and_in_the_containers() -> None:
    scripts = {file.name for file in FOLDER.glob("*.sh")}
    mounted = {source.removeprefix("./") for service in SERVICES for source in mounts(service).values()}
    assert scripts == {*re.findall(r"\| \[([\w-]+\.sh)\]\(team/\1\) \|", PAGE)}
    assert scripts == {name for name in mounted if name.endswith(".sh")}
