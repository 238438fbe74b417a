"""Run an older ikigai from a checkout, and have it write a small history of everything that an export holds."""

from pathlib import Path

from tests.e2e.account import Account, Wire
from tests.e2e.program import Program
from tests.support.wire_server import completion

QUESTION, ANSWER = "Mi az árvíz? 🌊 洪水とは", "Víz, amely **kiönt**. 水が溢れること。"
PRICES = '[models."wire/x"]\ninput_price = 3.0\noutput_price = 15.0\n'
TOOLS = {"IKIGAI_TOOLS_ENABLED": "true"}


class OldVersion:
    """The program of a `checkout`, used by the user of an account, whose provider `wire` answers."""

    def __init__(self, checkout: Path, account: Account, wire: Wire) -> None:
        self.account, self.wire = account, wire
        self.environment = {"PYTHONPATH": str(checkout), "WIRE_KEY": "a-key-of-the-test"}
        configuration = account.home / ".config/ikigai/config.toml"
        configuration.write_text(configuration.read_text() + PRICES)

    def run(self, *arguments: str) -> str:
        """Run it to its end; return its output."""
        ended = self.account.run(*arguments, **self.environment)
        assert ended.returncode == 0, ended
        return ended.stdout

    def terminal(self, *arguments: str) -> Program:
        """Start it in a terminal."""
        return self.account.terminal("-m", "wire/x", *arguments, columns=120, env={**self.environment, **TOOLS}).ready()

    def write_history(self) -> None:
        """Make a root with a tool call, usage and a rewind, a fork of it, a fork of that, and agents that were archived
        and killed.
        """
        with self.terminal("--new", "--yolo") as program:
            self._name(program, "árvíz")
            self._turn(program, QUESTION, ANSWER)
            self.wire.answers(completion(calls=[{"name": "shell", "arguments": {"command": "echo kút"}, "id": "c1"}]))
            self._turn(program, "Run it.", "It said kút.", told=False)
            program.say("/mark before")
            program.wait_for("Mark before set")
            self._turn(program, "A wrong way.", "Indeed.")
            program.say("/rewind before")
            program.wait_for("Rewound")
            program.say("/fork")
            program.wait(lambda: "árvíz" not in program.status(), "the fork on screen")
            self._name(program, "ág")
            self._turn(program, "On the branch.", "A leaf.")
            program.say("/fork")
            program.wait(lambda: not program.status().startswith("ág"), "the fork of the fork on screen")
            self._name(program, "levél")
            self._turn(program, "On the leaf.", "An end.")
            program.say("/switch árvíz")
            program.wait(lambda: "árvíz" in program.status(), "the root on screen")
            self._turn(program, "Later, on the trunk.", "Wood.")
            program.leave()
        with self.terminal("--new") as program:
            self._name(program, "stored")
            self._turn(program, "Hello.", "Good day.")
            program.say("/fork")
            program.wait(lambda: not program.status().startswith("stored"), "the fork on screen")
            self._name(program, "gone")
            self._turn(program, "Farewell.", "Good night.")
            program.leave()
        self.run("agents", "kill", "gone", "--yes")
        self.run("agents", "archive", "stored")

    def _name(self, program: Program, name: str) -> None:
        program.say(f"/rename {name}")
        program.wait(lambda: name in program.status(), "the name")

    def _turn(self, program: Program, text: str, answer: str, told: bool = True) -> None:
        self.wire.server.script.append(completion(answer))
        program.say(text)
        program.wait_for(answer.split(",")[0].split("*")[0])
        program.settled()
