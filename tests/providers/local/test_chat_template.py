"""Chat templates take tools or not: by the file, and by llama.cpp's prompts."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikigai.providers.local.chat_template import STRING_TYPE, TEMPLATE_KEYS, mentions_tools, takes_tools
from ikigai.providers.local.model_server import LocalServer
from ikigai.providers.local.provider import LocalModel
from tests.support.local_weights import smol_weights

SMOL = "{% for message in messages %}{{ message['role'] + ': ' + message['content'] }}{% endfor %}"
TAKES = "{% if tools %}{{ tools | tojson }}{% endif %}" + SMOL
NOT_THESE = (
    "You don't have tools. {# if tools: {{ tools }} #}{{ 'No tools, isn\\'t it? }}' }}{% set x = messages[0].tools %}"
)
PIECES = {
    "{% if tools %}": True,
    "{%- for tool in tools or [] -%}": True,
    "{{ '}}' + (tools | tojson) }}": True,
    "{{tools}}": True,
    "You don't have tools.": False,
    "{# tools {{ tools }} ' #}": False,
    '{{ "no \\" tools }}" }}': False,
    "{% set custom_tools = messages[0].tools %}": False,
    "{{ messages[0]['tools'] }}": False,
    " } % ' ": False,
}
"""Pieces of templates, and whether they look at the tools of the request."""
TOOL = {"name": "look", "description": "Looks at a thing. " * 20, "parameters": {"type": "object", "properties": {}}}


def value(key: bytes, text: str) -> bytes:
    """A text of the metadata as GGUF writes it."""
    return len(key).to_bytes(8, "little") + key + STRING_TYPE + len(text.encode()).to_bytes(8, "little") + text.encode()


def with_templates(folder: Path, default: str | None, tool_use: str | None = None) -> Path:
    """The small model with other templates; its tensors stay where the alignment wants them."""
    data = smol_weights().read_bytes()
    start = data.index(len(TEMPLATE_KEYS[0]).to_bytes(8, "little") + TEMPLATE_KEYS[0] + STRING_TYPE)
    length = int.from_bytes(data[start + 35 : start + 43], "little")
    end = start + 43 + length
    texts = [(key, text) for key, text in zip(TEMPLATE_KEYS, (default, tool_use), strict=True) if text is not None]
    values = b"".join(value(key, text) for key, text in texts)
    filler = value(b"general.note", "-" * ((end - start - len(values) - len(value(b"general.note", ""))) % 32))
    count = int.from_bytes(data[16:24], "little") + len(texts)
    made = folder / "model.gguf"
    made.write_bytes(data[:16] + count.to_bytes(8, "little") + data[24:start] + values + filler + data[end:])
    return made


def told_of_tools(model: Path) -> bool:
    """Return True if a request with a tool is a longer prompt to llama.cpp than one without."""
    server = LocalServer.start(model, context=1024)
    try:
        headers = {"Authorization": f"Bearer {server.api_key}"}
        with httpx.Client(base_url=server.base_url, headers=headers, timeout=60, trust_env=False) as http:

            def prompt(**more: Any) -> int:
                body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1, **more}
                return http.post("/chat/completions", json=body).raise_for_status().json()["usage"]["prompt_tokens"]

            return prompt(tools=[{"type": "function", "function": TOOL}]) > prompt()
    finally:
        server.close()


def test_small_model_takes_no_tools() -> None:
    assert not takes_tools(smol_weights())


@pytest.mark.parametrize(
    ("default", "tool_use", "takes"),
    [
        (None, None, False),
        pytest.param(NOT_THESE + SMOL, None, False, marks=pytest.mark.long),
        pytest.param(TAKES, None, True, marks=pytest.mark.long),
        pytest.param(SMOL, TAKES, True, marks=pytest.mark.long),
    ],
    ids=["no template", "only words of tools", "a template with tools", "one of its own for tools"],
)
def test_template_tells_what_llama_cpp_does_with_tools(
    default: str | None, tool_use: str | None, takes: bool, tmp_path: Path
) -> None:
    pytest.importorskip("xllamacpp", reason="the extra `local` is not installed")
    model = with_templates(tmp_path, default, tool_use)
    assert (takes_tools(model), told_of_tools(model)) == (takes, takes)


@given(st.lists(st.sampled_from(sorted(PIECES)), max_size=6))
def test_tools_are_found_in_statements_alone(pieces: list[str]) -> None:
    assert mentions_tools("".join(pieces)) is any(PIECES[piece] for piece in pieces)


@pytest.mark.parametrize("data", [None, b""])
def test_file_that_cannot_be_read_is_left_to_its_server(data: bytes | None, tmp_path: Path) -> None:
    if data is not None:
        (tmp_path / "bad.gguf").write_bytes(data)
    assert takes_tools(tmp_path / "bad.gguf")


@pytest.mark.parametrize("size", [0, 30, 40, 60])
def test_file_that_is_cut_off_takes_no_tools(size: int, tmp_path: Path) -> None:
    file = tmp_path / "cut.gguf"
    file.write_bytes(b"GGUF" + value(TEMPLATE_KEYS[0], SMOL)[:size])
    assert not takes_tools(file)


def test_model_that_is_not_here_is_taken_to_take_tools(tmp_path: Path) -> None:
    assert not LocalModel(str(smol_weights()), 8192, tmp_path).takes_tools()
    assert LocalModel(str(tmp_path / "none.gguf"), 8192, tmp_path).takes_tools()
    assert LocalModel("", 8192, tmp_path).takes_tools()
