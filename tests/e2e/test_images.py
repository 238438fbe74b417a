"""Tests of images over the real program: from a typed word to the body of the request, and over restarts."""

import base64
import os
from functools import cache
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import pytest
from PIL import Image as Pillow

from tests.e2e.account import ECHO, WIRE, Account, Wire, refused
from tests.e2e.test_tools import answer
from tests.support.invariants import check
from tests.support.pdf import make_pdf
from tests.support.wire_server import Answer, completion
from tests.terminal.modes import ENTER

PREFIX = "data:image/png;base64,"


def picture(path: Path, width: int = 60, height: int = 40, **options: Any) -> str:
    """Write a PNG that is sent as it is; return its base64."""
    Pillow.new("RGB", (width, height), (10, 200, 30)).save(path, **options)
    return base64.b64encode(path.read_bytes()).decode()


def shown(message: dict[str, Any]) -> list[str]:
    """Return the base64 of the images of a message as the server got it."""
    if isinstance(message["content"], str):
        return []
    urls = [part["image_url"]["url"] for part in message["content"] if part["type"] == "image_url"]
    return [url.partition(";base64,")[2] for url in urls]


def said(message: dict[str, Any]) -> str:
    if isinstance(message["content"], str):
        return message["content"]
    return "".join(part["text"] for part in message["content"] if part["type"] == "text")


def stored(account: Account) -> list[tuple[str, list[str]]]:
    """Return texts and images of the messages in the log."""
    rows = account.rows("user")
    return [(text, [image["data"] for image in data.get("images", [])]) for _, text, data in rows]


def test_image_reaches_the_model_and_stays_in_the_conversation(account: Account, wire: Wire):
    cat = picture(account.home / "cat.png")
    wire.answers("A green thing.", "Still green.", "As before.")
    with account.terminal(*WIRE) as program:
        program.ready().say("what is @cat.png, please?")
        program.wait_for("● A green thing.")
        program.settled()
        assert "❯ [image cat.png, 60×40]\n  what is @cat.png, please?" in program.text()
        assert [(said(each), shown(each)) for each in wire.messages()] == [("what is @cat.png, please?", [cat])]
        (account.home / "cat.png").unlink()
        program.say("and now?")
        program.wait_for("● Still green.")
        assert [shown(each) for each in wire.messages()] == [[cat], [], []]
        program.settled()
        program.kill()
    with account.terminal(*WIRE) as program:
        program.ready().wait_for("[image cat.png, 60×40]")
        program.say("and after that?")
        program.wait_for("● As before.")
        assert [shown(each) for each in wire.messages()] == [[cat], [], [], [], []]
        program.leave()
    assert account.endings() == ["completed"] * 3
    assert stored(account)[0] == ("what is @cat.png, please?", [cat])


def test_kill_right_after_the_message_keeps_its_image(account: Account, wire: Wire):
    cat = picture(account.home / "cat.png")
    wire.answers(Answer(end="hang"), "Here it is.")
    with account.terminal(*WIRE) as program:
        program.ready().say("look: @cat.png")
        assert wire.asked()
        program.kill()
    with account.terminal(*WIRE) as program:
        program.ready().wait_for("cut off: ikigai was killed here")
        program.say("well?")
        program.wait_for("● Here it is.")
        program.leave()
    assert shown(wire.messages()[0]) == [cat]
    assert account.endings() == ["interrupted", "completed"]


def test_photo_is_scaled_and_its_metadata_removed(account: Account, wire: Wire):
    photo = Pillow.frombytes("RGB", (2000, 1500), Random(3).randbytes(2000 * 1500 * 3))
    exif = photo.getexif()
    exif[0x0112], exif[0x010F] = 6, "SECRETCAMERA"
    photo.save(account.home / "photo.jpg", exif=exif, quality=60)
    wire.answers(completion("A photo."))
    with account.terminal(*WIRE) as program:
        program.ready().say("see @photo.jpg")
        program.wait_for("[image photo.jpg, 1176×1568]")
        program.wait_for("● A photo.")
        program.leave()
    ((data,),) = [shown(each) for each in wire.messages()]
    assert len(data) < 1_400_000 and b"SECRETCAMERA" not in base64.b64decode(data)


def test_message_returns_to_the_input_when_its_image_cannot_be_attached(account: Account, wire: Wire):
    picture(account.home / "cat.png")
    (account.home / "broken.png").write_bytes((account.home / "cat.png").read_bytes()[:60])
    (account.home / "notes.md").touch()
    with account.terminal(*WIRE, columns=100) as program:
        program.ready().say("see @gone.png")
        program.wait_for("⚠ There is no file or folder gone.png. Check the name after the @, or remove the @.")
        program.wait_for_input("see @gone.png")
        program.type("\x15see @broken.png\r")
        program.wait_for("⚠ broken.png is damaged or incomplete. Open it in another program and save it again.")
        program.wait_for_input("see @broken.png")
        program.type("\x15")
        assert not wire.requests and not stored(account)
        program.say("write to me@example.com, @anna, and see @notes")
        program.wait_for("● You said: write to me@example.com, @anna, and see @notes")
        program.wait_for("⚠ There is no file or folder @notes: sent as plain text. Did you mean @notes.md?")
        program.leave()
    assert stored(account) == [("write to me@example.com, @anna, and see @notes", [])]


def test_queued_messages_keep_their_images(account: Account, wire: Wire):
    cat, dog = picture(account.home / "cat.png"), picture(account.home / "my dog.png", 50, 50)
    wire.answers(completion("Slow. " * 30, pause=0.12))
    with account.terminal(*WIRE) as program:
        program.ready().say("begin")
        program.wait_for("● Slow.")
        program.say("first @cat.png")
        program.wait_for("next: first @cat.png")
        program.say('second @"my dog.png"')
        program.wait_for("second")
        program.wait_for("next: second")
        program.type("\x1b[A")
        program.wait_for_input('second @"my dog.png"')
        program.type(" again\r")
        program.wait_for("● You said: ")
        program.wait(lambda: len(account.turns()) == 3, "the end of the third turn")
        program.leave()
    assert stored(account) == [("begin", []), ("first @cat.png", [cat]), ('second @"my dog.png" again', [dog])]
    assert account.endings() == ["completed"] * 3


def test_esc_gives_queued_messages_back_with_their_images(account: Account, wire: Wire):
    cat = picture(account.home / "cat.png")
    wire.answers(Answer(end="hang"))
    with account.terminal(*WIRE) as program:
        program.ready().say("begin")
        assert wire.asked()
        program.say("then @cat.png")
        program.wait_for("next: then @cat.png")
        program.type("\x1b")
        program.wait_for_input("then @cat.png")
        program.type("\r")
        program.wait(lambda: account.turns() == ["interrupted", "completed"], "the second turn")
        program.leave()
    assert stored(account)[1] == ("then @cat.png", [cat])


@cache
def large() -> bytes:
    """Return a picture that takes a while to read."""
    file = BytesIO()
    Pillow.frombytes("RGB", (3000, 3000), Random(1).randbytes(27_000_000)).save(file, "JPEG", quality=50)
    return file.getvalue()


def test_nothing_overtakes_a_message_whose_image_is_being_read(account: Account):
    (account.home / "large.jpg").write_bytes(large())
    with account.terminal(*ECHO) as program:
        program.ready().type(f"one @large.jpg{ENTER}two{ENTER}/mark here{ENTER}three\r")
        program.wait(lambda: len(account.turns()) == 3, "three turns")
        program.settled()
        program.leave()
    kinds = [(kind, content) for kind, content, _ in account.rows("user", "mark")]
    assert kinds == [("user", "one @large.jpg"), ("user", "two"), ("mark", "here"), ("user", "three")]
    assert [len(images) for _, images in stored(account)] == [1, 0, 0]


def test_leaving_at_once_keeps_the_message_with_its_image(account: Account):
    (account.home / "large.jpg").write_bytes(large())
    with account.terminal(*ECHO) as program:
        program.ready().type(f"one @large.jpg{ENTER}/exit\r")
        assert program.ended() == 0
        program.assert_restored()
    check(account.dsn)
    if found := stored(account):
        assert [(text, len(images)) for text, images in found] == [("one @large.jpg", 1)]
        return
    with account.terminal(*ECHO, "-c") as program:  # a busy machine had no time for it: it is a draft
        program.wait_for_input("one @large.jpg")


def test_messages_behind_an_image_are_not_sent_when_the_user_leaves(account: Account):
    (account.home / "large.jpg").write_bytes(large())
    with account.terminal(*ECHO, "-c") as program:
        program.ready().type(f"one @large.jpg{ENTER}!touch ran\r\x04")
        assert program.ended() == 0
        program.assert_restored()
    assert [text for text, _ in stored(account)] == ["one @large.jpg"] and not (account.home / "ran").exists()
    with account.terminal(*ECHO, "-c") as program:
        program.wait_for_input("!touch ran")


def test_unsaved_events_keep_their_images(account: Account):
    cat = picture(account.home / "cat.png")
    with account.terminal(*ECHO, columns=200, module="tests.e2e.patient") as program:
        program.ready()
        program.wait(account.quiet, "the loop")  # while it reads from the database messages wait, and are drafts
        with account.stopped():
            program.type("first @cat.png\r")
            program.wait_for("unreachable")
            program.type("second @cat.png\r")
            program.wait_for("next: second")
            (account.home / "cat.png").unlink()
            program.type("\x04")
            program.wait_for("Ctrl+D again")
            program.type("\x04")
            assert program.ended() == 75, program.text()
        program.assert_restored()
    files = [*(account.home / ".local" / "state" / "ikigai").glob("unsaved-*.jsonl")]  # and what the server may lose
    assert any("first" in file.read_text() for file in files)
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in files)
    with account.terminal(*ECHO, "-c", columns=200) as program:  # the server may have stored it by now, by itself
        program.wait_for_input("second @cat.png")
        assert stored(account) == [("first @cat.png", [cat])]
        assert not any(file.exists() for file in files)


def test_model_without_vision_is_named_and_the_image_is_kept_for_others(account: Account, wire: Wire):
    cat = picture(account.home / "cat.png")
    file = account.home / ".config" / "ikigai" / "config.toml"
    file.write_text(file.read_text() + '[models."wire/blind"]\nimages = "no"\n')
    with account.terminal(columns=100) as program:
        program.ready().say("/model wire/blind")
        program.wait_for("Model: wire/blind")
        program.say("see @cat.png")
        program.wait_for("⚠ wire/blind sees no images: they are kept in the conversation for models that do.")
        program.wait_for("● You said")
        program.settled()
        assert not any(map(shown, wire.messages())) and "[image cat.png left out" in said(wire.messages()[-1])
        program.say("/model wire/x")
        program.wait_for("Model: wire/x")
        program.say("and you?")
        program.wait(lambda: len(account.turns()) == 2, "the second turn")
        assert shown(wire.messages()[0]) == [cat]
        program.settled()
        program.say("/model wire/blind")
        program.wait_for("⚠ wire/blind does not support images: 1 in the context is left out.")
        program.leave()


# -- print mode ---------------------------------------------------------------------------------------------------


def test_images_on_the_command_line(account: Account, wire: Wire):
    cat, dog = picture(account.home / "cat.png"), picture(account.home / "my dog.png", 50, 50)
    (account.home / "notes.txt").write_text("Notes that mention @cat.png and @gone.png.")
    result = account.run(*WIRE, "-p", "compare", "@cat.png", "with", "@my dog.png", "@notes.txt", input="and @gone.png")
    assert (result.returncode, result.stderr) == (0, "")
    ((message),) = wire.messages()
    assert said(message) == (
        'compare @cat.png with @"my dog.png" @notes.txt\n\nand @gone.png'
        '<file name="notes.txt">\nNotes that mention @cat.png and @gone.png.\n</file>'
    )
    assert shown(message) == [cat, dog]
    assert [images for _, images in stored(account)] == [[cat, dog]]


@pytest.mark.long  # test_print_mode.py shows it of a file
def test_image_inside_an_argument_is_attached(account: Account, wire: Wire):
    cat = picture(account.home / "cat.png")
    assert account.run(*WIRE, "-p", "what is @cat.png ?").returncode == 0
    assert (said(wire.messages()[0]), shown(wire.messages()[0])) == ("what is @cat.png ?", [cat])


def test_image_alone_is_a_message(account: Account, wire: Wire):
    cat = picture(account.home / "cat.png")
    assert account.run(*WIRE, "-p", "@cat.png").returncode == 0
    assert (said(wire.messages()[0]), shown(wire.messages()[0])) == ("@cat.png", [cat])


def test_images_on_the_command_line_of_the_repl(account: Account, wire: Wire):
    dog = picture(account.home / "my dog.png")
    with account.terminal(*WIRE, "what is", "@my dog.png") as program:
        program.ready().wait_for("● You said")
        program.leave()
    assert stored(account) == [('what is @"my dog.png"', [dog])]


@pytest.mark.ordinary("60")
@pytest.mark.parametrize("cut", [60, 30])
def test_broken_image_on_the_command_line_is_refused(account: Account, wire: Wire, cut: int):
    picture(account.home / "cat.png")
    (account.home / "broken.png").write_bytes((account.home / "cat.png").read_bytes()[:cut])
    refused(account.run(*WIRE, "-p", "see", "@broken.png"), 2, "broken.png is damaged or incomplete.")
    assert not wire.requests and not account.agents()


def test_image_on_the_command_line_is_refused_by_a_model_without_vision(account: Account, wire: Wire):
    picture(account.home / "cat.png")
    file = account.home / ".config" / "ikigai" / "config.toml"
    file.write_text(file.read_text() + '[models."wire/blind"]\nimages = "no"\n')
    result = account.run("-m", "wire/blind", "-p", "see", "@cat.png")
    assert result.returncode == 0
    assert "wire/blind sees no images" in result.stderr and not any(map(shown, wire.messages()))


# -- files, folders and pages -------------------------------------------------------------------------------------


def test_file_reaches_the_model_as_it_was_and_stays_in_the_conversation(account: Account, wire: Wire):
    (account.home / "hello.py").write_text("print('hi')\nprint('</file>')\n")
    wire.answers("It greets.", "As before.")
    sent = "explain @hello.py, please\n\n<file-2 name=\"hello.py\">\nprint('hi')\nprint('</file>')\n</file-2>"
    with account.terminal(*WIRE) as program:
        program.ready().say("explain @hello.py, please")
        program.wait_for("● It greets.")
        program.settled()
        assert "❯ [file hello.py, 2 lines]\n  explain @hello.py, please" in program.text()
        assert said(wire.messages()[0]) == sent
        program.say("/context")
        program.wait_for("attached     1 document,")
        (account.home / "hello.py").unlink()
        program.kill()
    with account.terminal(*WIRE) as program:
        program.ready().wait_for("[file hello.py, 2 lines]")
        program.say("and now?")
        program.wait_for("● As before.")
        assert said(wire.messages()[0]) == sent
        program.leave()
    assert [data["documents"] for _, _, data in account.rows("user") if data.get("documents")] == [
        [{"type": "document", "name": "hello.py", "text": "print('hi')\nprint('</file>')\n"}]
    ]


def test_file_can_be_attached_to_a_steering_message(account: Account, wire: Wire):
    (account.home / "a.txt").write_text("steered\n")
    wire.answers(completion("Slow. " * 30, pause=0.12))
    with account.terminal(*WIRE) as program:
        program.ready().say("begin")
        program.wait_for("● Slow.")
        program.type("see @a.txt\x13")
        program.wait(lambda: len(wire.requests) == 2, "the second request")
        program.settled()
        program.leave()
    assert said(wire.messages()[-1]) == 'see @a.txt\n\n<file name="a.txt">\nsteered\n</file>'


def test_retry_sends_the_file_as_it_was(account: Account, wire: Wire):
    (account.home / "a.txt").write_text("old\n")
    wire.answers("One.", "Two.")
    with account.terminal(*WIRE) as program:
        program.ready().say("see @a.txt")
        program.wait_for("● One.")
        program.settled()
        (account.home / "a.txt").write_text("new\n")
        program.say("/retry")
        program.wait_for("● Two.")
        program.leave()
    assert said(wire.messages()[0]) == 'see @a.txt\n\n<file name="a.txt">\nold\n</file>'


def test_file_with_keys_needs_a_confirmation(account: Account, wire: Wire):
    (account.home / ".env").write_text("TOKEN=1\n")
    with account.terminal(*WIRE) as program:
        program.ready().say("see @.env")
        program.wait_for(".env looks like a file with keys or passwords.")
        answer(program, "n", "Attach it?")
        program.wait_for("⚠ Nothing was attached, and nothing was sent.")
        program.wait_for_input("see @.env")
        assert not wire.requests
        program.type("\r")
        answer(program, "y", "Attach it?")
        program.wait_for("● You said")
        program.leave()
    assert "TOKEN=1" in said(wire.messages()[0])
    result = account.run(*WIRE, "-c", "-p", "see @.env")
    assert result.returncode == 1 and "nothing was sent" in result.stderr
    assert account.run(*WIRE, "--yes", "-c", "-p", "see @.env").returncode == 0


def test_page_needs_the_approval_of_web_fetch(account: Account, wire: Wire):
    file = account.home / ".config" / "ikigai" / "config.toml"
    file.write_text(file.read_text() + '[tools]\nprivate_hosts = ["127.0.0.1"]\n')
    url = f"http://127.0.0.1:{wire.server.port}/page"
    with account.terminal(*WIRE, columns=120) as program:
        program.ready().say(f"read @{url}, please")
        program.wait_for(f"→ fetch {url}")
        answer(program, "n", "Fetch it?")
        program.wait_for(f"⚠ {url} was not fetched. Nothing was sent.")
        program.wait_for_input(f"read @{url}, please")
        program.type("\x15")
        program.leave()
    assert not wire.requests
    result = account.run(*WIRE, "-c", "-p", f"read @{url}")
    assert result.returncode == 1 and "was not fetched" in result.stderr and not stored(account)
    wire.answers(Answer(b"<h1>Title</h1>", headers={"Content-Type": "text/html"}), "A title.")
    result = account.run(*WIRE, "--yolo", "-c", "-p", f"read @{url}.")
    assert (result.returncode, result.stdout) == (0, "A title.\n")
    assert said(wire.messages()[0]).endswith(f'<page name="{url}">\n[200 X, {url}, text/html]\n# Title\n</page>')


# -- the clipboard, and dropped files -------------------------------------------------------------------------------


def clipboard(account: Account, script: str) -> dict[str, str]:
    """Make a program of the desktop's clipboard; return the variables that make it the clipboard."""
    folder = account.home / "programs"
    folder.mkdir(exist_ok=True)
    (folder / "wl-paste").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "wl-paste").chmod(0o700)
    return {"PATH": f"{folder}:{os.environ['PATH']}", "WAYLAND_DISPLAY": "wayland-test"}


def test_picture_is_pasted_from_the_clipboard(account: Account, wire: Wire):
    cat = picture(account.home / "cat.png")
    script = f'[ "$1" = --list-types ] && echo image/png || cat {account.home}/cat.png'
    with account.terminal(*WIRE, env=clipboard(account, script)) as program:
        program.ready().type("what is \x16")
        program.wait(lambda: program.input().startswith("what is @pasted-"), "the picture")
        program.type("?\r")
        program.wait_for("● You said")
        program.leave()
    ((_, images),) = stored(account)
    assert images == [cat]
    (file,) = (account.home / ".local" / "share" / "ikigai" / "pasted").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600 and file.parent.stat().st_mode & 0o777 == 0o700


def test_pasted_picture_is_purged_with_its_ephemeral_agent(account: Account, wire: Wire):
    cat = picture(account.home / "cat.png")
    script = f'[ "$1" = --list-types ] && echo image/png || cat {account.home}/cat.png'
    folder = account.home / ".local" / "share" / "ikigai" / "pasted"
    with account.terminal("--ephemeral", *WIRE, env=clipboard(account, script)) as program:
        program.ready().type("what is \x16")
        program.wait(lambda: program.input().startswith("what is @pasted-"), "the picture")
        program.type("?\r")
        program.wait_for("● You said")
        assert stored(account)[0][1] == [cat]
        (own,) = folder.iterdir()
        assert own.stat().st_mode & 0o777 == 0o700 and len(list(own.iterdir())) == 1
        program.leave()
    assert list(folder.iterdir()) == []


@pytest.mark.ordinary("exit 1-*", "echo image/png-*")
@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo text/plain", "⚠ There is no picture in the clipboard."),
        ("exit 1", "⚠ There is no picture in the clipboard."),
        ("sleep 600", "⚠ wl-paste did not answer within 5 s."),
        ("echo image/png", "⚠ The clipboard does not contain a PNG, JPEG, WebP or GIF."),
    ],
)
def test_clipboard_without_a_picture_is_reported(account: Account, script: str, words: str):
    with account.terminal(*ECHO, env=clipboard(account, script), columns=120) as program:
        program.ready().type("\x16\x16here")
        program.wait_for_input("here")  # nothing waits for the clipboard
        program.wait_for(words)
        program.type("\x15")
        program.leave()


def test_missing_clipboard_program_is_named(account: Account):
    env = {"PATH": str(account.home), "WAYLAND_DISPLAY": "wayland-test"}
    with account.terminal(*ECHO, env=env, columns=120) as program:
        program.ready().type("\x16")
        program.wait_for("⚠ No program here reads pictures from the clipboard. Install wl-clipboard (wl-paste).")
        program.leave()


def test_dropped_pictures_become_mentions(account: Account, wire: Wire):
    cat, dog = picture(account.home / "cat.png"), picture(account.home / "my dog.png", 50, 50)
    with account.terminal(*WIRE, columns=200) as program:
        program.ready().type("see ")
        program.paste(f"{account.home}/cat.png {account.home}/my\\ dog.png ")
        program.wait_for_input(f'see @{account.home}/cat.png @"{account.home}/my dog.png"')
        program.type("\r")
        program.wait_for("● You said")
        program.paste(f"{account.home}/gone.png")
        program.wait_for_input(f"{account.home}/gone.png")
        program.type("\x15")
        program.leave()
    assert stored(account)[0][1] == [cat, dog]


def test_line_says_that_only_the_text_of_a_pdf_goes_along(account: Account, wire: Wire):
    account.configure(f'[providers.wire]\nbase_url = "{wire.server.base_url}"\n')
    (account.home / "a.pdf").write_bytes(make_pdf("Words of the page"))
    wire.answers("Read.", "Read.")
    result = account.run("-m", "wire/x", "-p", "Sum up @a.pdf")
    assert result.stdout == "Read.\n"
    assert "Only the text of a.pdf is sent: wire/x takes no PDFs." in result.stderr
    assert "Words of the page" in wire.requests[-1].body.decode()
    account.configure(f'[providers.openai]\nbase_url = "{wire.server.base_url}"\napi = "chat"\n')
    result = account.run("-m", "openai/gpt-5", "-p", "Sum up @a.pdf", OPENAI_API_KEY="k")
    assert "takes no PDFs" in result.stderr, "another server than OpenAI's own"
