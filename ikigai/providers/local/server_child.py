"""Run llama.cpp as a child process: load one GGUF file and serve it on a loopback port until the end.

`server.py` starts it by path, so it needs nothing but `xllamacpp`. Standard input brings one line of JSON, {"model":
path, "name": alias, "context": tokens, "api_key": secret}, and then stays open: its end, also by the death of the
parent, ends the child. Standard output gives one line, {"address": "http://127.0.0.1:PORT", "context": tokens}, once
the model answers. A failure is an exit before that line, with the reason on standard error.
"""

import http.client
import importlib
import json
import os
import sys
from typing import Any


def main() -> None:
    options = json.loads(sys.stdin.readline())
    answer = os.dup(1)
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)  # llama.cpp prints from C whenever it likes; only our own line may reach the parent

    xllamacpp: Any = importlib.import_module("xllamacpp")  # optional, and without types
    server = xllamacpp.Server(_parameters(xllamacpp, options))
    os.dup2(devnull, 2)  # it is not read from here on, and a full pipe would stop the server
    address = server.listening_address
    line = json.dumps({"address": address, "context": _context(address, options["api_key"])})
    os.write(answer, line.encode() + b"\n")

    sys.stdin.read()
    # Destroying the server can wait for ever, for a client that is still connected or a loop that has just begun.
    os._exit(0)


def _parameters(xllamacpp: Any, options: dict[str, Any]) -> Any:
    params = xllamacpp.CommonParams()
    params.model.path = options["model"]
    params.model_alias = {options["name"]}
    params.n_ctx = options["context"]
    params.n_parallel = 1
    params.sampling.penalty_repeat = 1.1  # else small models repeat themselves
    params.ctx_shift = False  # too long requests are refused, never cut silently
    params.n_batch = params.n_ubatch = 256  # a cancelled request is noticed between batches only
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    params.cpuparams_batch.n_threads = cores
    # Threads wait for one another after every layer: with one on each core, any other busy program stalls them all.
    params.cpuparams.n_threads = max(1, cores // 2)
    params.cache_ram_mib = 0  # else up to 8 GiB of old prompts are kept beside the slot's own
    cpu = xllamacpp.ggml_backend_dev_type.GGML_BACKEND_DEVICE_TYPE_CPU
    # Sizing a model to a GPU loads it twice; without a GPU that would only double the wait.
    params.fit_params = any(device["type"] != cpu for device in xllamacpp.get_device_info())
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [options["api_key"]]
    params.ui = False
    params.offline = True
    params.verbosity = 1  # errors only
    return params


def _context(address: str, api_key: str) -> int:
    """Return the server's real context in tokens: the requested one, rounded up, limited by the model's."""
    connection = http.client.HTTPConnection(address.removeprefix("http://"))
    connection.request("GET", "/v1/models", headers={"Authorization": f"Bearer {api_key}"})
    return json.load(connection.getresponse())["data"][0]["meta"]["n_ctx"]


if __name__ == "__main__":
    main()
