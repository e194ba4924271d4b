"""Commands of a sandbox."""

from __future__ import annotations

import base64
import threading
import time
from dataclasses import dataclass
from typing import Dict, Iterator, Optional, Sequence, Union

from .errors import SandboxError
from .protocol import ProcessInfo, SandboxProcessesClient

#: Attempts to continue an output whose connection broke, after 0.1, 0.2, 0.4 ... seconds.
_MAX_RECONNECTS = 6
_FIRST_RECONNECT = 0.1

#: Input per call, in bytes.
_MAX_INPUT = 256 * 1024

#: Deadline of a call that is answered immediately, in seconds.
CALL_TIMEOUT = 30.0

_STATES = {
    "PROCESS_STATE_EXITED": "exited",
    "PROCESS_STATE_TIMED_OUT": "timed out",
    "PROCESS_STATE_ABANDONED": "abandoned",
}


@dataclass(frozen=True)
class CommandInfo:
    """A command. `state` is running, exited, timed out or abandoned; `exit_code` is None while it runs, and 128 + n for a signal."""

    id: str
    command: Sequence[str]
    state: str
    exit_code: Optional[int]


@dataclass(frozen=True)
class OutputChunk:
    """A part of the output. `stream` is stdout or stderr; pass `next_offset` to `Command.output` to continue after it."""

    stream: str
    data: bytes
    next_offset: int


@dataclass(frozen=True)
class ExecResult:
    """How a command ended and what it wrote."""

    exit_code: int
    stdout_bytes: bytes
    stderr_bytes: bytes

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode(errors="replace")

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode(errors="replace")


class Command:
    """A command in a sandbox: its output, input and end. Use `Sandbox.start` or `Sandbox.command`."""

    def __init__(
        self, processes: SandboxProcessesClient, key: Dict[str, str], id: str, input_bytes: Optional[int] = None
    ) -> None:
        self.id = id
        self.info: Optional[CommandInfo] = None
        self._processes = processes
        self._key = {**key, "processId": id}
        #: Position of the next input. None until the server has reported it.
        self._input_bytes = input_bytes
        #: Held by a write: concurrent ones would use the same position.
        self._input_lock = threading.Lock()

    def output(self, offset: int = 0) -> Iterator[OutputChunk]:
        """Follows the output until the command has exited; `info` is set then. After a dropped connection it continues by itself."""
        position, failures = offset, 0
        while True:
            try:
                for message in self._processes.output({**self._key, "offset": str(position)}):  # type: ignore[typeddict-item]
                    failures = 0
                    if "exit" in message:
                        self.info = info_of(message["exit"])
                        return
                    if "lostBytes" in message:
                        lost = message["lostBytes"]
                        raise SandboxError("OutputLost", f"{lost} bytes of output from offset {position} are no longer available")
                    stream = "stdout" if "stdout" in message else "stderr"
                    data = base64.b64decode(message.get(stream, ""))  # type: ignore[arg-type]
                    position += len(data)
                    yield OutputChunk(stream, data, position)
                raise SandboxError("Unavailable", "the output ended before the command exited")
            except SandboxError as error:
                if error.code != "Unavailable" or failures >= _MAX_RECONNECTS:
                    raise
                time.sleep(_FIRST_RECONNECT * 2**failures)
                failures += 1

    def wait(self) -> CommandInfo:
        """Reads the output to its end and returns how the command exited."""
        for _ in self.output():
            pass
        assert self.info is not None
        return self.info

    def write(self, data: Union[str, bytes]) -> None:
        """Writes standard input, after earlier writes. Returns when the command has room for it."""
        content = data.encode() if isinstance(data, str) else data
        with self._input_lock:
            start = self._write(0, b"") if self._input_bytes is None else self._input_bytes
            position = start
            while position < start + len(content):
                sent = position - start
                position = self._write(position, content[sent : sent + _MAX_INPUT])

    def close_input(self) -> None:
        """Ends standard input, after earlier writes."""
        with self._input_lock:
            self._write(self._input_bytes or 0, b"", end=True)

    def signal(self, name: str) -> None:
        """Sends a signal, such as SIGTERM, to the process group of the command."""
        self._processes.signal({**self._key, "signal": name}, CALL_TIMEOUT)  # type: ignore[typeddict-item]

    def kill(self) -> None:
        """Kills the command and everything that it has started."""
        self.signal("SIGKILL")

    def _write(self, position: int, data: bytes, end: bool = False) -> int:
        """Writes input at a position. Returns the next position."""
        request = {
            **self._key,
            "offset": str(position),
            "data": base64.b64encode(data).decode(),
            "end": end,
        }
        # Unknown until the answer arrives: the input of a call that fails may have been accepted.
        self._input_bytes = None
        answer = self._processes.write_input(request, CALL_TIMEOUT)  # type: ignore[arg-type]
        accepted = int(answer.get("acceptedBytes", "0"))
        self._input_bytes = accepted
        return accepted


def info_of(process: ProcessInfo) -> CommandInfo:
    """A process of the protocol as a `CommandInfo`."""
    state = _STATES.get(process.get("state", ""), "running")
    exit_code = None if state == "running" else process.get("exitCode", 0)
    return CommandInfo(process.get("processId", ""), process.get("command", []), state, exit_code)
