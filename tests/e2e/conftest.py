"""Give the tests of the whole program their users and model servers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.account import Account, Wire
from tests.store.conftest import empty_role, role, small_disk
from tests.support import starting

__all__ = ["account", "empty_role", "role", "small_disk", "wire"]


@pytest.fixture(autouse=True)
def interpreters(request: pytest.FixtureRequest) -> Iterator[None]:
    """Start the program with an interpreter of its own in long runs, and in tests of its start and end."""
    own = any(map(request.node.get_closest_marker, ("own_interpreter", "long")))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(starting, "own_interpreter", own or starting.own_interpreter)
        yield


@pytest.fixture
def quick_questions() -> Iterator[None]:
    """Start the program as `tests.e2e.quick` in terminals."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(starting, "terminal_module", "tests.e2e.quick")
        yield


@pytest.fixture
def account(tmp_path: Path, dsn: str) -> Account:
    """Return a user who has never used the program, with an empty database."""
    return Account(tmp_path, dsn)


@pytest.fixture
def wire(account: Account) -> Iterator[Wire]:
    """Yield a model server that the user has configured as the provider `wire`; nothing listens at the provider
    `dead`.
    """
    with Wire().running() as wire:
        account.configure(
            f'[providers.wire]\nbase_url = "{wire.server.base_url}"\napi_key_env = "WIRE_KEY"\n'
            '[providers.dead]\nbase_url = "http://127.0.0.1:1/v1"\n'
        )
        yield wire
