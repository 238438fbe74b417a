"""Answer as the servers of models on one's own machine do: Ollama, LM Studio, llama.cpp and vLLM.

The answers have the fields that their documentation shows (docs.ollama.com/api, lmstudio.ai/docs/developer/rest,
llama.cpp's tools/server/README.md, vLLM's ModelCard), for `WireServer.answer`.
"""

import json
from typing import Any

from tests.support.wire_server import Answer, Received, completion, failure

OLLAMA_MODELS: dict[str, dict[str, Any]] = {
    "llama3.2:3b": {
        "model_info": {"general.architecture": "llama", "llama.context_length": 131_072},
        "parameters": 'stop    "<|eot_id|>"\nnum_ctx                        16384',
        "capabilities": ["completion", "tools"],
    },
    "gemma3:4b": {
        "model_info": {"general.architecture": "gemma3", "gemma3.context_length": 131_072},
        "capabilities": ["completion", "vision"],
    },
    "nomic-embed-text:latest": {
        "model_info": {"general.architecture": "nomic-bert", "nomic-bert.context_length": 2048},
        "capabilities": ["embedding"],
    },
    "old:latest": {"model_info": {"general.architecture": "old", "old.context_length": 4096}},
}
"""The answers of /api/show by model; the last comes from a version that names no capabilities."""


def answer_json(value: object) -> Answer:
    return Answer(json.dumps(value).encode(), 200, {"Content-Type": "application/json"})


NOT_FOUND = failure(404, "not found")


def ollama(received: Received) -> Answer:
    """Answer as Ollama with gemma3:4b in memory; models without the capability refuse tools."""
    match received.path:
        case "/api/tags":
            return answer_json({"models": [{"name": name, "model": name, "size": 1} for name in OLLAMA_MODELS]})
        case "/api/ps":
            return answer_json({"models": [{"name": "gemma3:4b", "context_length": 8192}]})
        case "/api/show":
            return answer_json(OLLAMA_MODELS[received.json["model"]])
        case "/v1/chat/completions":
            model = received.json["model"]
            if received.json.get("tools") and "tools" not in OLLAMA_MODELS[model].get("capabilities", []):
                return failure(400, f"registry.ollama.ai/library/{model} does not support tools", "api_error")
            return completion(f"{model} answers.")
        case _:
            return NOT_FOUND


def lmstudio(received: Received) -> Answer:
    """Answer as LM Studio."""
    models = [
        {"id": "meta-llama-3.1-8b-instruct", "type": "llm", "state": "not-loaded", "max_context_length": 131_072},
        {
            "id": "qwen2-vl-7b-instruct",
            "type": "vlm",
            "state": "loaded",
            "max_context_length": 32_768,
            "loaded_context_length": 4096,
            "capabilities": ["tool_use"],
        },
        {"id": "text-embedding-nomic-embed-text-v1.5", "type": "embeddings", "max_context_length": 2048},
    ]
    return answer_json({"object": "list", "data": models}) if received.path == "/api/v0/models" else NOT_FOUND


def llamacpp(received: Received) -> Answer:
    """Answer as llama.cpp's server."""
    match received.path:
        case "/props":
            return answer_json(
                {"default_generation_settings": {"n_ctx": 8192}, "total_slots": 1, "modalities": {"vision": False}}
            )
        case "/v1/models":
            meta = {"n_ctx_train": 131_072, "n_params": 3_000_000}
            return answer_json({"data": [{"id": "qwen3-4b.gguf", "owned_by": "llamacpp", "meta": meta}]})
        case _:
            return NOT_FOUND


def vllm(received: Received) -> Answer:
    """Answer as vLLM."""
    card = {"id": "Qwen/Qwen3-8B", "object": "model", "owned_by": "vllm", "max_model_len": 40_960, "permission": []}
    return answer_json({"object": "list", "data": [card]}) if received.path == "/v1/models" else NOT_FOUND
