"""Downloads of large files: continued after every kind of interruption, and checked by what the server names."""

import asyncio
import base64
import errno
import hashlib
import os
import random
import shutil
from collections import namedtuple
from pathlib import Path
from typing import BinaryIO

import pytest

from ikigai.core.errors import IkigaiError
from ikigai.providers.local import download
from ikigai.providers.local.download import Downloader, DownloadFailed, Remote
from ikigai.providers.local.model_source import check_gguf
from tests.support.file_server import FileServer, Hosted

BODY = b"GGUF" + (3).to_bytes(4, "little") + random.Random(1).randbytes(400_000)
OTHER = b"GGUF" + (3).to_bytes(4, "little") + random.Random(2).randbytes(400_000)
SHA = hashlib.sha256(BODY).hexdigest()
BASE64_SHA = base64.b64encode(hashlib.sha256(BODY).digest()).decode()
HUB = {"X-Linked-ETag": f'"{SHA}"', "X-Linked-Size": str(len(BODY))}


async def fetch(server: FileServer, target: Path, path: str = "/m.gguf", token: str = "", etag: bool = False) -> str:
    """Download once; return the checksum that was named."""
    remote = Remote(server.url + path, token, etag)
    downloader = Downloader(remote, target, check_gguf, lambda done, total: None, pause=0.001)
    await downloader.run()
    return downloader.sha256


def ranges(server: FileServer) -> list[str]:
    return [headers.get("range", "") for _, headers in server.requests]


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_file_arrives_whole_private_and_with_progress(tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    with FileServer({"/m.gguf": Hosted(BODY, etag='"1"')}) as server:
        remote, target = Remote(server.url + "/m.gguf"), tmp_path / "m.gguf"
        await Downloader(remote, target, check_gguf, lambda done, total: seen.append((done, total))).run()
    assert target.read_bytes() == BODY and target.stat().st_mode & 0o777 == 0o600
    assert left(tmp_path) == ["m.gguf"]
    assert seen[0] == (0, len(BODY)) and seen[-1] == (len(BODY), len(BODY)) and seen == sorted(seen)


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Linked-ETag": f'"{SHA}"'},
        {"Repr-Digest": f"md5=:AAAA:, sha-256=:{BASE64_SHA}:"},
        {"Content-Digest": f"sha-256=:{BASE64_SHA}:"},
        {"Digest": f"SHA-256={BASE64_SHA}"},
        {"x-amz-checksum-sha256": BASE64_SHA},
    ],
    ids=lambda headers: next(iter(headers)),
)
async def test_checksum_that_the_server_names_is_checked(tmp_path: Path, headers: dict[str, str]) -> None:
    with FileServer({"/m.gguf": Hosted(BODY, headers=headers)}) as server:
        assert await fetch(server, tmp_path / "m.gguf") == SHA
        server.files["/m.gguf"] = Hosted(OTHER, headers=headers)
        with pytest.raises(DownloadFailed, match="does not have the checksum"):
            await fetch(server, tmp_path / "n.gguf", "/m.gguf")
    assert left(tmp_path) == ["m.gguf"]


async def test_etag_is_a_checksum_only_where_it_is_known_to_be_one(tmp_path: Path) -> None:
    with FileServer({"/m.gguf": Hosted(OTHER, etag=f'"{SHA}"')}) as server:
        assert await fetch(server, tmp_path / "m.gguf") == ""
        with pytest.raises(DownloadFailed, match="does not have the checksum"):
            await fetch(server, tmp_path / "n.gguf", etag=True)


@pytest.mark.parametrize("headers", [{}, HUB], ids=["etag", "checksum"])
async def test_download_that_is_cut_continues_by_itself(tmp_path: Path, headers: dict[str, str]) -> None:
    hosted = Hosted(BODY, headers=headers, etag='"1"', cut=100_000, cuts=3)
    with FileServer({"/m.gguf": hosted}) as server:
        await fetch(server, tmp_path / "m.gguf")
    assert (tmp_path / "m.gguf").read_bytes() == BODY
    asked = ranges(server)
    assert len(asked) == 4 and asked[0] == "" and all(asked[1:]), asked
    assert server.requests[1][1].get("if-range") == '"1"'


async def test_part_of_another_run_continues_unless_the_file_has_changed(tmp_path: Path) -> None:
    target = tmp_path / "m.gguf"
    with FileServer({"/m.gguf": Hosted(BODY, etag='"1"', cut=100_000, cuts=1)}) as server:
        with pytest.raises(DownloadFailed, match=r"stopped at 0\.1 MB.*continues"):
            await _once(server, target)
        assert left(tmp_path) == ["m.gguf.part", "m.gguf.part.json"]
        assert server.url not in (tmp_path / "m.gguf.part.json").read_text()
        server.requests.clear()
        await fetch(server, target)
        assert ranges(server) == [f"bytes={100_000}-"]
        assert target.read_bytes() == BODY
        target.unlink()

        server.files["/m.gguf"] = Hosted(BODY, etag='"1"', cut=100_000, cuts=1)
        with pytest.raises(DownloadFailed):
            await _once(server, target)
        server.files["/m.gguf"] = Hosted(OTHER, etag='"2"')
        await fetch(server, target)
        assert target.read_bytes() == OTHER


async def _once(server: FileServer, target: Path) -> None:
    """Download with one try, as a program that is killed then."""
    downloader = Downloader(Remote(server.url + "/m.gguf"), target, check_gguf, lambda done, total: None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ikigai.providers.local.download.MAX_TRIES", 0)
        await downloader.run()


async def test_changed_checksum_discards_the_part(tmp_path: Path) -> None:
    """The server ignores If-Range and continues another file."""
    target, changed = tmp_path / "m.gguf", hashlib.sha256(OTHER).hexdigest()
    with FileServer({"/m.gguf": Hosted(BODY, headers=HUB, cut=100_000, cuts=1)}) as server:
        with pytest.raises(DownloadFailed):
            await _once(server, target)
        server.files["/m.gguf"] = Hosted(OTHER, headers={"X-Linked-ETag": f'"{changed}"'})
        await fetch(server, target)
        assert target.read_bytes() == OTHER


async def test_server_without_ranges_sends_all_again(tmp_path: Path) -> None:
    target = tmp_path / "m.gguf"
    with FileServer({"/m.gguf": Hosted(BODY, etag='"1"', ranges=False, cut=100_000, cuts=2)}) as server:
        await fetch(server, target)
    assert target.read_bytes() == BODY


async def test_part_that_nothing_describes_is_not_continued(tmp_path: Path) -> None:
    target = tmp_path / "m.gguf"
    (tmp_path / "m.gguf.part").write_bytes(OTHER[:1000])
    for state in (None, b"", b"{", b'{"size": 5}', b"\xff\xfe", b"[" * 100_000):
        if state is not None:
            (tmp_path / "m.gguf.part.json").write_bytes(state)
        with FileServer({"/m.gguf": Hosted(BODY, etag='"1"', cut=100_000, cuts=1)}) as server:
            with pytest.raises(DownloadFailed):
                await _once(server, target)
            assert ranges(server) == [""]
        (tmp_path / "m.gguf.part").write_bytes(OTHER[:1000])


async def test_whole_part_is_only_checked(tmp_path: Path) -> None:
    """A program was killed between the last byte and the rename."""
    target = tmp_path / "m.gguf"
    with FileServer({"/m.gguf": Hosted(BODY, headers=HUB, cut=100_000, cuts=1)}) as server:
        with pytest.raises(DownloadFailed):
            await _once(server, target)
        (tmp_path / "m.gguf.part").write_bytes(BODY)
        await fetch(server, target)
        assert target.read_bytes() == BODY and left(tmp_path) == ["m.gguf"]


async def test_token_stays_with_its_server(tmp_path: Path) -> None:
    with (
        FileServer({"/m.gguf": Hosted(BODY, etag='"cdn"')}) as storage,
        FileServer({"/hub/m.gguf": Hosted(status=302, headers={"Location": f"{storage.url}/m.gguf", **HUB})}) as hub,
    ):
        hub.files["/m.gguf"] = Hosted(status=307, headers={"Location": "/hub/m.gguf"})
        assert await fetch(hub, tmp_path / "m.gguf", token="hf_canary") == SHA
    assert [headers.get("authorization") for _, headers in hub.requests] == ["Bearer hf_canary"] * 2
    assert "authorization" not in storage.requests[0][1]
    assert "canary" not in str(storage.requests)


@pytest.mark.parametrize(
    ("status", "what", "requests"),
    [(404, "no such file", 1), (401, "refused", 1), (403, "refused", 1), (500, "HTTP 500", 1), (200, "not a GGUF", 1)],
)
async def test_answers_that_are_no_file(tmp_path: Path, status: int, what: str, requests: int) -> None:
    with FileServer({"/m.gguf": Hosted(b"<html>Please log in</html>", status)}) as server:
        with pytest.raises(IkigaiError, match=what) as raised:
            await fetch(server, tmp_path / "m.gguf")
        assert len(server.requests) == requests and raised.value.remedy
    assert left(tmp_path) == []


async def test_busy_server_is_asked_again_once_it_had_begun(tmp_path: Path) -> None:
    with FileServer({"/m.gguf": Hosted(BODY, etag='"1"', cut=100_000, cuts=1)}) as server:
        busy = [Hosted(b"later", 503)] * 2
        files = server.files

        class Sometimes(dict[str, Hosted]):
            def get(self, key: str, default: Hosted | None = None) -> Hosted | None:  # pyright: ignore[reportIncompatibleMethodOverride]
                return busy.pop() if len(server.requests) in (2, 3) else files.get(key, default)

        server.files = Sometimes()
        await fetch(server, tmp_path / "m.gguf")
    assert (tmp_path / "m.gguf").read_bytes() == BODY and len(server.requests) == 4


async def test_redirects_that_never_end_or_lose_tls(tmp_path: Path) -> None:
    with FileServer({"/m.gguf": Hosted(status=302, headers={"Location": "/m.gguf"})}) as server:
        with pytest.raises(DownloadFailed, match="redirects more than"):
            await fetch(server, tmp_path / "m.gguf")
        server.files["/m.gguf"] = Hosted(status=302, headers={"Location": "ftp://127.0.0.1/m.gguf"})
        with pytest.raises(DownloadFailed):
            await fetch(server, tmp_path / "m.gguf")
    assert left(tmp_path) == []


async def test_server_that_is_not_there(tmp_path: Path) -> None:
    with FileServer() as server:
        pass
    with pytest.raises(DownloadFailed) as raised:
        await fetch(server, tmp_path / "m.gguf")
    assert raised.value.what == (
        f"Nothing was downloaded. The server cannot be reached at {server.url}: connection refused."
    )
    (tmp_path / "m.gguf").write_bytes(BODY)
    with pytest.raises(DownloadFailed) as raised:
        await fetch(server, tmp_path / "m.gguf")
    assert raised.value.remedy == f"The file is here. To use it: ikigai setup --model {tmp_path / 'm.gguf'}"
    assert left(tmp_path) == ["m.gguf"]


async def test_busy_server_is_said_to_be_busy(tmp_path: Path) -> None:
    with FileServer({"/m.gguf": Hosted(b"later", 503)}) as server, pytest.raises(DownloadFailed) as raised:
        await fetch(server, tmp_path / "m.gguf")
    assert str(raised.value) == "Nothing was downloaded. 127.0.0.1 answered with HTTP 503. Try again later."


async def test_empty_and_short_answers_are_no_model(tmp_path: Path) -> None:
    short = Hosted(BODY[:1000])
    with FileServer({"/empty.gguf": Hosted(b""), "/short.gguf": short}) as server:
        with pytest.raises(IkigaiError, match="not a GGUF file"):
            await fetch(server, tmp_path / "empty.gguf", "/empty.gguf")
        assert left(tmp_path) == []
        await fetch(server, tmp_path / "short.gguf", "/short.gguf")
    assert (tmp_path / "short.gguf").read_bytes() == short.body


async def test_part_without_a_version_begins_anew_and_says_so(tmp_path: Path) -> None:
    target = tmp_path / "m.gguf"
    with FileServer({"/m.gguf": Hosted(BODY, cut=100_000, cuts=1)}) as server:
        with pytest.raises(DownloadFailed, match=r"The connection to 127\.0\.0\.1 was cut\. .*It begins anew"):
            await _once(server, target)
        await fetch(server, target)
    assert ranges(server) == ["", ""] and target.read_bytes() == BODY


async def test_cuts_at_changing_places_come_to_an_end(tmp_path: Path) -> None:
    """No piece of the file survives a cut here, so each try begins anew."""
    with FileServer({"/m.gguf": Hosted(BODY, cut=100_000)}) as server:
        hosted = server.files["/m.gguf"]

        class Changing(dict[str, Hosted]):
            def get(self, key: str, default: Hosted | None = None) -> Hosted | None:  # pyright: ignore[reportIncompatibleMethodOverride]
                hosted.cut = 100_000 + 50_000 * (len(server.requests) % 2)
                return hosted

        server.files = Changing()
        with pytest.raises(DownloadFailed, match="begins anew"):
            await fetch(server, tmp_path / "m.gguf")
    assert len(server.requests) <= 2 * download.MAX_TRIES


async def test_program_waits_for_another_that_downloads_the_same_file(tmp_path: Path) -> None:
    target, has_part, waits = tmp_path / "m.gguf", asyncio.Event(), asyncio.Event()
    hosted = Hosted(BODY, etag='"1"', cut=100_000, hang=True)

    def progress(done: int, total: int | None) -> None:
        if done == 100_000:  # all that the server has sent is in the file
            has_part.set()

    with FileServer({"/m.gguf": hosted}) as server:
        remote = Remote(server.url + "/m.gguf")
        first = asyncio.create_task(Downloader(remote, target, check_gguf, progress).run())
        await has_part.wait()
        second = asyncio.create_task(Downloader(remote, target, check_gguf, lambda done, total: waits.set()).run())
        await waits.wait()
        assert ranges(server) == [""]
        hosted.cut = None
        first.cancel()
        await second
        assert ranges(server) == ["", "bytes=100000-"]
        await asyncio.gather(*(fetch(server, tmp_path / "n.gguf", "/m.gguf") for _ in range(5)))
    assert target.read_bytes() == (tmp_path / "n.gguf").read_bytes() == BODY
    assert left(tmp_path) == ["m.gguf", "n.gguf"]


async def test_checksum_of_a_large_file_lets_other_tasks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "CHECKED_BYTES", 1000)
    target, turns = tmp_path / "m.gguf", 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    target.write_bytes(BODY)
    counting = asyncio.create_task(count())
    assert await download._sha256(target) == SHA
    counting.cancel()
    assert turns > len(BODY) / 1000 / 2


async def test_full_disk_is_seen_before_the_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(0, 0, 64 << 20))
    words = "has 67 MB free, and the download needs 68 MB"
    with FileServer({"/m.gguf": Hosted(BODY)}) as server, pytest.raises(DownloadFailed, match=words):
        await fetch(server, tmp_path / "m.gguf")
    assert left(tmp_path) == []


@pytest.mark.parametrize("size", ["9" * 400, "9" * 5_000, "-1", "1e9"])
async def test_size_that_is_none_is_ignored(tmp_path: Path, size: str) -> None:
    redirect = Hosted(status=302, headers={"Location": "/store/m.gguf", "X-Linked-Size": size})
    with FileServer({"/m.gguf": redirect, "/store/m.gguf": Hosted(BODY)}) as server:
        await fetch(server, tmp_path / "m.gguf")
    assert (tmp_path / "m.gguf").read_bytes() == BODY


async def test_disk_that_fills_up_on_the_way_keeps_the_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, target = download._write, tmp_path / "m.gguf"

    def full(file: BinaryIO, piece: bytes) -> None:
        if file.tell() > 100_000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(file, piece)

    monkeypatch.setattr(download, "_write", full)
    with FileServer({"/m.gguf": Hosted(BODY, headers=HUB)}) as server:
        with pytest.raises(DownloadFailed, match="cannot be written: No space left on device") as raised:
            await fetch(server, target)
        assert "it continues" in raised.value.remedy
        came = target.with_name("m.gguf.part").stat().st_size
        assert 100_000 < came < len(BODY)
        monkeypatch.setattr(download, "_write", write)
        assert await fetch(server, target) == SHA
    assert target.read_bytes() == BODY and server.requests[-1][1]["range"] == f"bytes={came}-"


async def test_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "m.gguf.part").mkdir()
    files, refused = {"/m.gguf": Hosted(BODY)}, pytest.raises(DownloadFailed, match="cannot be written: Is a directory")
    with FileServer(files) as server, refused:
        await fetch(server, tmp_path / "m.gguf")


async def test_file_that_is_here_already(tmp_path: Path) -> None:
    target = tmp_path / "m.gguf"
    target.write_bytes(BODY)
    with FileServer({"/m.gguf": Hosted(BODY, headers=HUB)}) as server:
        await fetch(server, target)
        server.files["/m.gguf"] = Hosted(OTHER, headers={"X-Linked-ETag": hashlib.sha256(OTHER).hexdigest()})
        with pytest.raises(DownloadFailed, match="differs from the file on the server"):
            await fetch(server, target)
        server.files["/m.gguf"] = Hosted(BODY + b"x")
        with pytest.raises(DownloadFailed, match="differs from the file on the server"):
            await fetch(server, target)
    assert target.read_bytes() == BODY and os.listdir(tmp_path) == ["m.gguf"]
