"""Bodies of requests as servers receive them, read in plain words and held against the types of the vendors' SDKs.

What a body says is told in the same words for all formats, so that one expectation holds for all of them:

    ("user", text)   ("image", base64)   ("thought", signature)   ("said", text)
    ("call", id, name, arguments)        ("result", id, content, whether it is an error)
"""

import json
from functools import cache
from typing import Any

from ikigai.providers.google.generate_content_api import UNSIGNED_CALL
from ikigai.providers.openai.chat_thinking import REASONING_FIELDS, undefined_fields

Told = list[tuple[Any, ...]]


def messages_read(body: dict[str, Any]) -> Told:
    found: Told = []
    for message in body["messages"]:
        for part in message["content"]:
            match part["type"]:
                case "text":
                    found.append(("said" if message["role"] == "assistant" else "user", part["text"]))
                case "image":
                    found.append(("image", part["source"]["data"]))
                case "thinking":
                    found.append(("thought", part["signature"]))
                case "tool_use":
                    found.append(("call", part["id"], part["name"], part["input"]))
                case "tool_result":
                    said, shown = _parts(part["content"])
                    found.append(("result", part["tool_use_id"], said, part.get("is_error", False)))
                    found += [("image", each["source"]["data"]) for each in shown]
    return found


def messages_validated(body: dict[str, Any]) -> object:
    from anthropic.types.beta.message_create_params import MessageCreateParamsStreaming

    return exhausted(adapter(MessageCreateParamsStreaming).validate_python(body))


def responses_read(body: dict[str, Any]) -> Told:
    found: Told = []
    for item in body["input"]:
        match item["type"]:
            case "message" if item["role"] == "assistant":
                found.append(("said", item["content"]))
            case "message":
                for part in item["content"]:
                    found.append(_shown(part["image_url"]) if "image_url" in part else ("user", part["text"]))
            case "reasoning":
                found.append(("thought", item["encrypted_content"]))
            case "function_call":
                found.append(("call", item["call_id"], item["name"], json.loads(item["arguments"])))
            case "function_call_output":
                said, shown = _parts(item["output"])
                found.append(_result(item["call_id"], said))
                found += [_shown(each["image_url"]) for each in shown]
    return found


def responses_validated(body: dict[str, Any]) -> object:
    from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

    return exhausted(adapter(ResponseCreateParamsStreaming).validate_python(body))


def chat_read(body: dict[str, Any]) -> Told:
    found: Told = []
    for message in body["messages"]:
        match message["role"], message["content"]:
            case "tool", content:
                found.append(_result(message["tool_call_id"], content))
            case "user", str(content):
                found.append(("user", content))
            case "user", parts:
                found += [_shown(p["image_url"]["url"]) if "image_url" in p else ("user", p["text"]) for p in parts]
            case "assistant", content:
                found += [("said", content)] if content else []
                calls = [(call["id"], call["function"]) for call in message.get("tool_calls", [])]
                found += [("call", id, call["name"], json.loads(call["arguments"])) for id, call in calls]
    return found


def chat_validated(body: dict[str, Any]) -> object:
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

    validated: Any = exhausted(adapter(CompletionCreateParamsStreaming).validate_python(body))
    for read, sent in zip(validated["messages"], body["messages"], strict=True):
        read |= {name: sent[name] for name in REASONING_FIELDS if name in sent}  # the servers' own, not OpenAI's
        for call, wanted in zip(read.get("tool_calls", []), sent.get("tool_calls", []), strict=True):
            call |= undefined_fields(wanted)
    return validated


def contents_read(body: dict[str, Any]) -> Told:
    found: Told = []
    for content in body["contents"]:
        for part in content["parts"]:
            if part.get("thoughtSignature", UNSIGNED_CALL) != UNSIGNED_CALL:
                found.append(("thought", part["thoughtSignature"]))
            match part:
                case {"text": text}:
                    found.append(("said" if content["role"] == "model" else "user", text))
                case {"inlineData": image}:
                    found.append(("image", image["data"]))
                case {"functionCall": call}:
                    found.append(("call", call["id"], call["name"], call["args"]))
                case {"functionResponse": {"id": id, "response": response}}:
                    [(kind, said)] = response.items()
                    found.append(("result", id, said, kind == "error"))
                    parts = part["functionResponse"].get("parts", [])
                    found += [("image", each["inlineData"]["data"]) for each in parts]
    return found


def contents_validated(body: dict[str, Any]) -> object:
    from google.genai import types

    def model(type: Any, value: object) -> Any:
        read = type.model_validate_json(json.dumps(value)).model_dump(mode="json", by_alias=True, exclude_unset=True)
        return _common(read)

    read = dict(body)
    for key, type in (("systemInstruction", types.Content), ("generationConfig", types.GenerationConfig)):
        if key in body:
            read[key] = model(type, body[key])
    for key, type in (("tools", types.Tool), ("contents", types.Content)):
        if key in body:
            read[key] = [model(type, value) for value in body[key]]
    return read


def _common(value: Any, key: str = "") -> Any:
    """Return the value with bytes in the usual alphabet of base64, in which they came."""
    if isinstance(value, dict):
        return {key: _common(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [_common(inner) for inner in value]
    opaque = key in ("thoughtSignature", "data") and value != UNSIGNED_CALL
    return value.translate(str.maketrans("-_", "+/")) if opaque else value


def _parts(content: str | list[Any]) -> tuple[str, list[Any]]:
    """The words of a result, and the pictures behind them."""
    return (content, []) if isinstance(content, str) else (content[0]["text"], content[1:])


def _shown(url: str) -> tuple[str, str]:
    return "image", url.partition("base64,")[2]


def _result(id: str, output: str) -> tuple[str, str, str, bool]:
    """Formats that have no other place to say that a tool failed say it in front."""
    return "result", id, output.removeprefix("[error] "), output.startswith("[error] ")


@cache
def adapter(type: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(type)


def exhausted(value: Any) -> Any:
    """Return the value with every lazily validated list read to its end."""
    if isinstance(value, dict):
        return {key: exhausted(inner) for key, inner in value.items()}
    return [exhausted(inner) for inner in value] if hasattr(value, "__iter__") and not isinstance(value, str) else value
