"""The terminal as a device: raw mode from the first moment, keys typed too early, everything put back at the end."""

import array
import atexit
import fcntl
import os
import signal
import termios
from types import FrameType

RESET = "\x1b[?2004l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1006l\x1b[?2026l\x1b[?7h\x1b[?25h\x1b[0m"
"""Paste, mouse and focus reports off, synchronised output off, wrapping on, cursor visible, no attributes."""

DEADLY = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Signals that end the program without a word to Python; until `Screen` runs they restore the terminal first. SIGINT is
one of them because an exception in the middle of an import can make the interpreter crash at its end."""


class Tty:
    """Standard input and output as one terminal.

    Made before anything slow is imported: keys typed while the program loads wait in the kernel, unechoed and whole.
    `early` is what had been typed before that, with line ends as the Enter key sends them.
    """

    def __init__(self, input: int = 0, output: int = 1, environ: dict[str, str] | None = None) -> None:
        self.input, self.output = input, output
        self.dumb = (os.environ if environ is None else environ).get("TERM", "dumb") in ("dumb", "")
        self.early = b""
        self.gone = False  # the other end has hung up
        self._prompted = False
        self._pid = os.getpid()
        self._on = self._off = ""  # see `keep`
        self._before = termios.tcgetattr(input)
        self._is_raw = False

    def open(self, prompt: str = "") -> None:
        """Enter raw mode, draw `prompt`, and see to it that the terminal is restored whatever happens."""
        self.raw()
        self.early = self._waiting().replace(b"\n", b"\r")
        for number in DEADLY:
            signal.signal(number, self._killed)
        atexit.register(self.restore)
        if prompt:
            self._prompted = True
            self.write("\r" + prompt if self.dumb else f"{RESET}\r\x1b[J{prompt}" if self.early else RESET + prompt)

    def taken_over(self) -> bytes:
        """Somebody else draws from here on; gives what was typed early, once."""
        early, self.early, self._prompted = self.early, b"", False
        return early

    def raw(self) -> None:
        """Keys arrive one by one, unechoed: no signals from keys, no flow control, no translation."""
        try:
            mode = termios.tcgetattr(self.input)
        except termios.error:  # it went away while another program had it
            self.gone = True
            return
        mode[0] &= ~(termios.IXON | termios.IXOFF | termios.ICRNL | termios.INLCR | termios.IGNCR)
        mode[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN | termios.ISIG)
        mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self.input, termios.TCSANOW, mode)
        if not self._is_raw:
            self.write(self._on)
        self._is_raw = True

    def restore(self) -> None:
        """Put back what was before `open`: safe to call from anywhere, at any time, any number of times."""
        if not self._is_raw or os.getpid() != self._pid:
            return
        self._is_raw = False
        erased = "\r\x1b[J" * self._prompted
        self.write("\r  \r" * self._prompted if self.dumb else erased + self._off + RESET)
        self._prompted = False
        try:
            termios.tcsetattr(self.input, termios.TCSANOW, self._before)  # draining could wait for ever
        except termios.error:
            self.gone = True

    def write(self, text: str) -> None:
        """All of `text` at once. A terminal that is gone takes it too: then `gone` says so."""
        data = memoryview(text.encode("utf-8", "replace"))
        try:
            while data and not self.gone:
                data = data[os.write(self.output, data) :]
        except OSError:
            self.gone = True

    def keep(self, on: str, off: str) -> None:
        """From now on, write `on` whenever the terminal is taken again, and `off` whenever it is put back."""
        self._on, self._off = on, off

    def tell(self, text: str) -> None:
        """Write what draws nothing, unless somebody else has the terminal."""
        if self._is_raw:
            self.write(text)

    def size(self) -> tuple[int, int]:
        """Columns and rows; 80 and 24 where the terminal does not know."""
        try:
            columns, rows = os.get_terminal_size(self.output)
        except OSError:
            columns, rows = 0, 0
        return columns or 80, rows or 24

    def _waiting(self) -> bytes:
        count = array.array("i", [0])
        fcntl.ioctl(self.input, termios.FIONREAD, count)
        return os.read(self.input, count[0]) if count[0] else b""

    def _killed(self, number: int, frame: FrameType | None) -> None:
        self.restore()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
