"""Run a local model: llama.cpp's own HTTP server for one GGUF file, on a loopback port, with its own key.

The server is a child process. xllamacpp holds Python's global lock while it loads a model and while it stops. In this
process keys and screen would freeze for a third of a second with the smallest model, far longer with a real one, and
for ever when it is stopped under a connected client. An abort of llama.cpp over a file would kill the terminal's
program.
"""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

from ikigai.core.errors import ConfigError, IkigaiError
from ikigai.system.install_command import extra_command

_CHILD = Path(__file__).with_name("server_child.py")
_PASSED_ON = {"HOME", "LANG", "PATH", "TMPDIR", "VIRTUAL_ENV"}
_PASSED_ON_PREFIXES = ("PYTHON", "LC_", "LD_", "DYLD_", "OMP_", "GGML_", "CUDA_", "HIP_", "ROC", "HSA_", "VK_")


class LocalServer:
    """One model served OpenAI's way.

    base_url   "http://127.0.0.1:PORT/v1"
    api_key    made for this server alone; every request without it is refused with 401
    context    tokens; the server's real one, which may differ from the one asked for
    name       the model's name in requests: the file's name without its ending

    A request longer than the context is refused with 400, type "exceed_context_size_error" and the members
    `n_prompt_tokens` and `n_ctx`; a reply that reaches it ends with finish_reason "length". Generation stops soon after
    the client has gone. Requests are answered one at a time.
    """

    def __init__(self, model: Path, context: int = 8192) -> None:
        """Begin to load `model` and return at once; `ready` waits. Raise ConfigError if the extra or the file is
        missing.
        """
        require_package()
        if not model.is_file():
            raise ConfigError(
                f"The model file {model} does not exist.", "Run `ikigai setup`, or configure a GGUF file."
            )
        self.name = model.stem
        self.base_url = ""
        self.api_key = secrets.token_urlsafe(32)
        self.context = context
        self._model = model
        self._closed = False
        self._child = subprocess.Popen(
            [sys.executable, "-P", str(_CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(),
            start_new_session=True,  # Ctrl+C and Ctrl+Z at the terminal are for ikigai
        )

    @classmethod
    def start(cls, model: Path, context: int = 8192) -> Self:
        """Load `model` and wait until it answers, which takes the small one 0.4 s. Raise as the two steps do."""
        server = cls(model, context)
        try:
            server.ready()
        except BaseException:
            server.close()
            raise
        return server

    def ready(self) -> None:
        """Wait until the model answers. Call it once, from any thread; `close` from another one ends the wait.

        Raise ConfigError if the file cannot be loaded.
        """
        child = self._child
        assert child.stdin and child.stdout and child.stderr
        options = {"model": str(self._model), "name": self.name, "context": self.context, "api_key": self.api_key}
        with child.stdout, child.stderr:
            try:
                child.stdin.write(json.dumps(options).encode() + b"\n")
                child.stdin.flush()
                line = child.stdout.readline()
            except OSError:
                line = b""
            if not line:
                raise self._failure(child.stderr.read().decode(errors="replace"))
        answer = json.loads(line)
        self.base_url = f"{answer['address']}/v1"
        self.context = answer["context"]

    @property
    def alive(self) -> bool:
        """False once the server has ended, closed or killed from outside; a new one is needed then."""
        return self._child.poll() is None

    def close(self) -> None:
        """Stop the server at once, whatever it is doing. It may be called twice, and from any thread."""
        self._closed = True
        self._child.kill()
        self._child.wait()

    def _failure(self, output: str) -> IkigaiError:
        status = self._child.wait()
        if self._closed:
            return IkigaiError("The local model was stopped while it was loading.")
        reason = _reason(output) or (signal.strsignal(-status) if status < 0 else f"exit status {status}")
        return ConfigError(
            f"The model file {self._model} could not be loaded ({reason}).",
            "Configure another GGUF file, or a provider with a key.",
        )


def require_package() -> None:
    """Raise ConfigError if the extra that runs local models is not installed."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise ConfigError(
            "The local model needs the package xllamacpp, which is not installed.",
            f"Install it with: {extra_command('local')}",
        )


def _environment() -> dict[str, str]:
    """Return the child's environment: it can find Python, libraries and devices, but has no key or password."""
    passed = {
        name: value for name, value in os.environ.items() if name in _PASSED_ON or name.startswith(_PASSED_ON_PREFIXES)
    }
    return passed | {
        "GGML_NO_BACKTRACE": "1",  # an aborting llama.cpp would start a debugger
        "GOMP_SPINCOUNT": "2000",  # its threads would burn what the one they wait for needs, on a busy machine
    }


def _reason(output: str) -> str:
    """Return the reason in the child's output: llama.cpp's first error ("TIME E place: text"), else the last line."""
    lines = [line for line in output.splitlines() if line.strip()]
    errors = [line.partition(": ")[2] for line in lines if " E " in line]
    return errors[0] if errors else lines[-1] if lines else ""
