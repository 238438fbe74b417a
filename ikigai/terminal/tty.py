"""The terminal as a device: raw mode from the first moment, early keys, modes restored at the end."""

import array
import atexit
import contextlib
import fcntl
import os
import signal
import termios
from types import FrameType

RESET_MODES = "\x1b[?2004l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1006l\x1b[?2026l\x1b[?7h\x1b[?25h\x1b[0m"
"""Paste, mouse and focus reports off, synchronized output off, wrapping on, cursor visible, no attributes."""

DEADLY_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Signals that end the program without any Python code running. Until `Screen` runs they restore the terminal first.

SIGINT is one of them because an exception in the middle of an import can make the interpreter crash at its end.
"""


class Tty:
    """Standard input and output as one terminal.

    It is made before anything slow is imported: keys typed while the program loads wait in the kernel, unechoed and
    whole. `early` holds the keys typed before that, with line ends as the Enter key sends them.
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
        """Enter raw mode, draw `prompt`, and make sure that the terminal is restored whatever happens."""
        self.raw()
        self.early = self.read_waiting().replace(b"\n", b"\r")
        for number in DEADLY_SIGNALS:
            signal.signal(number, self._on_deadly_signal)
        atexit.register(self.restore)
        if prompt:
            self._prompted = True
            reset = f"{RESET_MODES}\r\x1b[J" if self.early else RESET_MODES
            self.write(("\r" if self.dumb else reset) + prompt)

    def take_early(self) -> bytes:
        """Return the bytes that were typed early, once."""
        early, self.early = self.early, b""
        return early

    def read_waiting(self) -> bytes:
        """Return the bytes that wait in the terminal, read."""
        count = array.array("i", [0])
        try:
            fcntl.ioctl(self.input, termios.FIONREAD, count)
            return os.read(self.input, count[0]) if count[0] else b""
        except OSError:
            self.gone = True
            return b""

    def drop_waiting(self) -> None:
        """Drop what was typed and not read yet."""
        with contextlib.suppress(termios.error):
            termios.tcflush(self.input, termios.TCIFLUSH)

    def hand_over(self) -> None:
        """Leave drawing to the caller, who erases the prompt from now on."""
        self._prompted = False

    def raw(self) -> None:
        """Enter raw mode: keys arrive one by one, unechoed, without signals from keys, flow control or translation."""
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

    def hide_typing(self) -> None:
        """Echo no keys until `raw`, while another program has the terminal: it is still starting when they come."""
        with contextlib.suppress(termios.error):
            mode = termios.tcgetattr(self.input)
            mode[3] &= ~termios.ECHO
            termios.tcsetattr(self.input, termios.TCSANOW, mode)

    def hold_typing(self) -> None:
        """Leave keys as they are typed, unechoed, until `raw` reads them: no other program that has the terminal does.

        A signal from a key still reaches the program. With lines of its own the terminal would make Enter a line break.
        """
        with contextlib.suppress(termios.error):
            mode = termios.tcgetattr(self.input)
            mode[0] &= ~termios.ICRNL
            mode[3] &= ~(termios.ECHO | termios.ICANON)
            termios.tcsetattr(self.input, termios.TCSANOW, mode)

    def restore(self) -> None:
        """Restore the terminal as it was before `open`: safe to call from anywhere and any number of times."""
        if not self._is_raw or os.getpid() != self._pid:
            return
        self._is_raw = False
        erased = "\r\x1b[J" * self._prompted
        self.write("\r  \r" * self._prompted if self.dumb else erased + self._off + RESET_MODES)
        self._prompted = False
        try:
            termios.tcsetattr(self.input, termios.TCSANOW, self._before)  # draining could wait for ever
        except termios.error:
            self.gone = True

    def write(self, text: str) -> None:
        """Write all of `text` at once. A terminal that is gone takes it too: then `gone` is set."""
        data = memoryview(text.encode("utf-8", "replace"))
        try:
            while data and not self.gone:
                data = data[os.write(self.output, data) :]
        except OSError:
            self.gone = True

    def keep(self, on: str, off: str) -> None:
        """Write `on` whenever the terminal is taken again, and `off` whenever it is restored, from now on."""
        self._on, self._off = on, off

    def tell(self, text: str) -> None:
        """Write `text`, which draws nothing, unless another program has the terminal."""
        if self._is_raw:
            self.write(text)

    def size(self) -> tuple[int, int]:
        """Return columns and rows; 80 and 24 where the terminal does not know."""
        try:
            columns, rows = os.get_terminal_size(self.output)
        except OSError:
            columns, rows = 0, 0
        return columns or 80, rows or 24

    def _on_deadly_signal(self, number: int, frame: FrameType | None) -> None:
        self.restore()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
