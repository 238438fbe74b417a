"""Give tests a server of their own: they share its cluster, which takes two seconds to make."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ikigai.store.embedded import location, server


@pytest.fixture(scope="package")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the data folder of the server, which has stopped and whose cluster is gone at the end."""
    folder = tmp_path_factory.mktemp("own-server")
    yield folder
    deadline = time.monotonic() + 30
    while server.embedded_status(folder).running and time.monotonic() < deadline:
        time.sleep(0.1)
    shutil.rmtree(location.folder_of(folder), ignore_errors=True)


@pytest.fixture
def lease(data_dir: Path) -> Iterator[server.Lease]:
    """Yield a lease of the running server."""
    lease = server.start(data_dir)
    yield lease
    lease.close()
