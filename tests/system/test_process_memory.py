"""Tests that ikigai's memory is closed to other processes of the user, and that its children's memory is open."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="prctl and /proc are Linux's")
NOBODY = 65534

_PROTECT = "from ikigai.system.process_memory import protect_process_memory as protect; protect()"


def child(code: str, **how: object) -> str:
    """Return the output of Python running `code`, with a secret in its environment."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "TEST_KEY": "canary"},
        capture_output=True,
        text=True,
        check=False,
        **how,  # pyright: ignore
    )
    assert not done.returncode, done.stderr
    return done.stdout


@LINUX
@pytest.mark.parametrize("protected", [False, True])
def test_environment_is_closed_to_another_process_of_the_same_user(protected: bool):
    """As root the other process becomes another user first: root may read everything."""
    code = f"""
import ctypes, os, subprocess
from ikigai.system.process_memory import protect_process_memory
if os.geteuid() == 0:
    os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
    ctypes.CDLL(None).prctl(4, 1)  # the change of user has closed it
if {protected}:
    protect_process_memory()
command = ["/bin/cat", f"/proc/{{os.getpid()}}/environ"]
done = subprocess.run(command, env={{}}, capture_output=True, text=True, cwd="/")
print(done.stdout, done.stderr)
"""
    told = child(code)
    assert ("canary" in told) is not protected
    assert ("Permission denied" in told) is protected


@LINUX
def test_process_is_undumpable_and_its_programs_are_not():
    dumpable = "import ctypes; print(ctypes.CDLL(None).prctl(3))"
    assert child(dumpable).split() == ["1"]
    both = f"import subprocess, sys; {_PROTECT}; {dumpable}; sys.stdout.flush()"
    assert child(f"{both}; subprocess.run([sys.executable, '-c', {dumpable!r}])").split() == ["0", "1"]


def test_core_files_are_off_and_programs_can_turn_them_on():
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    assert child(f"import resource; {_PROTECT}; print(*resource.getrlimit(resource.RLIMIT_CORE))").split() == [
        "0",
        str(hard),
    ]


@LINUX
def test_program_is_protected_when_it_opens_the_database(tmp_path: Path):
    """No tool can run before that, in either way to use the program."""
    code = (
        "import os, ctypes; from ikigai.cli.main import main; before = ctypes.CDLL(None).prctl(3);"
        f"os.environ.update(HOME={str(tmp_path)!r}, IKIGAI_DATABASE_URL='postgresql://nobody@127.0.0.1:1/none');"
        "code = main(['-m', 'scripted/echo', '-p', 'hi']); print(before, code, ctypes.CDLL(None).prctl(3))"
    )
    assert child(code).split()[-3:] == ["1", "75", "0"]


def test_protection_loads_no_ctypes():
    """It takes up to 14 ms to import, before the first prompt."""
    assert child(f"import sys\n{_PROTECT}\nprint('ctypes' in sys.modules)").split() == ["False"]
