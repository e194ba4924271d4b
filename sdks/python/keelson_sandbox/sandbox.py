"""Sandboxes."""

from __future__ import annotations

import base64
import math
import os
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Union

from .command import CALL_TIMEOUT, Command, CommandInfo, ExecResult, OutputChunk, info_of
from .credentials import find_cluster_credentials, read_text, tls_context
from .errors import SandboxError
from .files import SandboxFiles
from .protocol import (
    FastPathServiceClient,
    SandboxFilesClient,
    SandboxLifecycleClient,
    SandboxPortsClient,
    SandboxProcessesClient,
    SandboxStreamsClient,
    Transport,
)
from .protocol import SandboxInfo as _InfoMessage
from .transport import HttpTransport

#: How long a command survives without a reader, in milliseconds: long enough for dropped connections.
_MAX_UNATTENDED_MS = 30_000

#: Deadline of a create, which may wait for a slot, in seconds.
_CREATE_TIMEOUT = 90.0

_WHEN_FULL = {"wait": "WHEN_FULL_WAIT", "reject": "WHEN_FULL_REJECT", "burst": "WHEN_FULL_BURST"}

Text = Union[str, bytes]


@dataclass(frozen=True)
class SandboxInfo:
    """What the server says about a sandbox. Times are in seconds since the epoch; `expires_at` is None if it never expires."""

    name: str
    id: str
    phase: str
    image: str
    pool: str
    created_at: int
    expires_at: Optional[int]
    endpoints: Sequence[str]


class Sandbox:
    """A sandbox: a program in isolation, with commands alongside it, files and ports.

    >>> with Sandbox.create(image="host") as box:
    ...     box.files.write("main.py", "print(6 * 7)")
    ...     box.exec(["python3", "main.py"], timeout=10).stdout
    """

    def __init__(self, transport: Transport, name: str, namespace: str = "default") -> None:
        self.name = name
        self._key = {"sandboxName": name, "namespace": namespace}
        self._sandboxes = FastPathServiceClient(transport)
        self._processes = SandboxProcessesClient(transport)
        self._lifecycle = SandboxLifecycleClient(transport)
        self._streams = SandboxStreamsClient(transport)
        self._ports = SandboxPortsClient(transport)
        self.files = SandboxFiles(SandboxFilesClient(transport), self._key)

    @classmethod
    def create(
        cls,
        image: str,
        *,
        pool: str = "default-pool",
        name: str = "",
        namespace: str = "default",
        command: Sequence[str] = ("sleep", "infinity"),
        env: Optional[Mapping[str, str]] = None,
        working_dir: str = "",
        timeout: float = 3600,
        network: Union[str, Mapping[str, Any]] = "none",
        ports: Sequence[int] = (),
        volumes: Optional[Mapping[str, Union[str, Mapping[str, Any]]]] = None,
        cpu: str = "",
        memory: str = "",
        labels: Optional[Mapping[str, str]] = None,
        when_full: str = "wait",
        mode: str = "fast",
        deadline: float = _CREATE_TIMEOUT,
        transport: Optional[Transport] = None,
        **connection: str,
    ) -> "Sandbox":
        """Creates a sandbox, which runs when this returns. In a `with` statement it is deleted at the end.

        `timeout` is its lifetime in seconds (0: until it is deleted), `deadline` that of the call. `network` is none, internet or
        `{"allow": [{"host": "pypi.org", "ports": [443]}]}`. `volumes` maps mount paths to names of volumes, or to
        `{"name": "data", "readOnly": True}`. `endpoint` and `token` override the environment. Raises PoolFull with
        `retry_after` if no slot is free.
        """
        transport = transport or connect(**connection)
        if when_full not in _WHEN_FULL:
            raise SandboxError("InvalidArgument", f"when_full: {when_full} must be wait, reject or burst")
        allow = [] if isinstance(network, str) else network["allow"]
        request: Dict[str, Any] = {
            "image": image,
            "poolRef": pool,
            "name": name,
            "namespace": namespace,
            "command": list(command),
            "envs": dict(env or {}),
            "workingDir": working_dir,
            "expireTimeSeconds": "0" if timeout == 0 else str(math.ceil(time.time() + timeout)),
            "network": network if isinstance(network, str) else "allowList",
            "networkAllow": [dict(rule) for rule in allow],
            "exposedPorts": list(ports),
            "volumes": [
                {**({"name": volume} if isinstance(volume, str) else volume), "mountPath": path}
                for path, volume in (volumes or {}).items()
            ],
            "cpu": cpu,
            "memory": memory,
            "labels": dict(labels or {}),
            "whenFull": _WHEN_FULL[when_full],
            "consistencyMode": "STRONG" if mode == "strong" else "FAST",
        }
        try:
            created = FastPathServiceClient(transport).create_sandbox(request, deadline)  # type: ignore[arg-type]
        except SandboxError as error:
            if error.code != "ResourceExhausted":
                raise
            raise SandboxError("PoolFull", str(error), error.retry_after) from error
        return cls(transport, created["sandboxName"], namespace)

    @classmethod
    def connect(
        cls, name_or_id: str, *, namespace: str = "default", transport: Optional[Transport] = None, **connection: str
    ) -> "Sandbox":
        """Connects to a sandbox that exists, by its name or id. Raises NotFound."""
        transport = transport or connect(**connection)
        for info in cls.list(namespace=namespace, transport=transport):
            if name_or_id in (info.name, info.id):
                return cls(transport, info.name, namespace)
        raise SandboxError("NotFound", f"sandbox {name_or_id} not found")

    @staticmethod
    def list(
        *, namespace: str = "default", transport: Optional[Transport] = None, **connection: str
    ) -> List[SandboxInfo]:
        """Lists the sandboxes of a namespace."""
        service = FastPathServiceClient(transport or connect(**connection))
        answer = service.list_sandboxes({"namespace": namespace}, CALL_TIMEOUT)
        return [_info(item) for item in answer.get("items", [])]

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *_: object) -> None:
        self.delete()

    def info(self) -> SandboxInfo:
        return _info(self._sandboxes.get_sandbox(self._key, CALL_TIMEOUT))  # type: ignore[arg-type]

    def start(
        self,
        command: Union[str, Sequence[str]],
        *,
        env: Optional[Mapping[str, str]] = None,
        working_dir: str = "",
        user: str = "",
        timeout: Optional[float] = None,
        stdin: bool = False,
        background: bool = False,
    ) -> Command:
        """Starts a command and returns; a text is run by `sh -c`. It is killed after `timeout` seconds.

        `user` is a name of the image, a uid or uid:gid, inside the sandbox; empty: that of the sandbox.

        Unless it runs in the `background`, it is also killed 30 s after nothing follows its output. In the background, the last 512 KiB of
        its output are kept. `stdin` keeps standard input open for `Command.write`.
        """
        request: Dict[str, Any] = {
            **self._key,
            "command": ["sh", "-c", command] if isinstance(command, str) else list(command),
            "env": dict(env or {}),
            "workingDir": working_dir,
            "user": user,
            "stdin": stdin,
            "timeoutMs": str(math.ceil((timeout or 0) * 1000)),
            "maxUnattendedMs": "0" if background else str(_MAX_UNATTENDED_MS),
        }
        started = self._processes.start(request, CALL_TIMEOUT)  # type: ignore[arg-type]
        return Command(self._processes, self._key, started["processId"], 0)

    def exec(
        self,
        command: Union[str, Sequence[str]],
        *,
        stdin: Optional[Text] = None,
        env: Optional[Mapping[str, str]] = None,
        working_dir: str = "",
        user: str = "",
        timeout: Optional[float] = None,
        check: bool = False,
        on_output: Optional[Callable[[OutputChunk], None]] = None,
        max_output_bytes: int = 16 * 1024 * 1024,
    ) -> ExecResult:
        """Runs a command to its end; a text is run by `sh -c`. `user` is that of `start`.

        Raises TimedOut after `timeout` seconds, ResourceExhausted if an output exceeds `max_output_bytes`, and with `check` CommandFailed if
        the exit code is not 0. An exception, such as KeyboardInterrupt, kills the command.
        """
        settings: Dict[str, Any] = {"env": env, "working_dir": working_dir, "user": user, "timeout": timeout}
        running = self.start(command, stdin=stdin is not None, **settings)
        outputs = {"stdout": bytearray(), "stderr": bytearray()}
        try:
            if stdin is not None:
                # In its own thread: the command may wait for its output to be read.
                threading.Thread(target=_send_input, args=(running, stdin), daemon=True).start()
            for chunk in running.output():
                output = outputs[chunk.stream]
                output += chunk.data
                if len(output) > max_output_bytes:
                    message = f"the command wrote more than max_output_bytes, {max_output_bytes} bytes, to {chunk.stream}"
                    raise SandboxError("ResourceExhausted", message)
                if on_output is not None:
                    on_output(chunk)
        except BaseException:
            _kill(running)
            raise
        end = running.info
        assert end is not None and end.exit_code is not None
        if end.state == "timed out":
            raise SandboxError("TimedOut", f"the command did not exit within {timeout} s and was killed")
        result = ExecResult(end.exit_code, bytes(outputs["stdout"]), bytes(outputs["stderr"]))
        if check and result.exit_code != 0:
            message = f"the command exited with status {result.exit_code}: {result.stderr[-500:].strip()}"
            raise SandboxError("CommandFailed", message)
        return result

    def command(self, id: str) -> Command:
        """A command that was started before, by its id."""
        return Command(self._processes, self._key, id)

    def commands(self) -> List[CommandInfo]:
        """The commands that run, and the last ones that have exited."""
        answer = self._processes.list(self._key, CALL_TIMEOUT)  # type: ignore[arg-type]
        return [info_of(process) for process in answer.get("processes", [])]

    def logs(self, follow: bool = False) -> Iterator[bytes]:
        """The output of the sandbox's program; with `follow` until it exits."""
        for message in self._streams.logs({**self._key, "follow": follow}):  # type: ignore[typeddict-item]
            yield base64.b64decode(message.get("data", ""))

    def address(self, port: int) -> str:
        """The address of an exposed port, as HOST:PORT. Raises NotFound if the sandbox does not expose it."""
        for endpoint in self.info().endpoints:
            if endpoint.endswith(f":{port}"):
                return endpoint
        raise SandboxError("NotFound", f"sandbox {self.name} does not expose port {port}; list it in the ports of create")

    def url(self, port: int, expires_in: float = 3600) -> str:
        """A URL that grants access to an exposed port through the server's HTTP proxy, for clients without credentials.

        It ends after `expires_in` seconds, at most 7 days, and when the sandbox ends or restarts. Raises InvalidArgument unless
        `expires_in` is in this range, and FailedPrecondition if the sandbox does not expose the port or the server has no proxy.
        """
        if not 0 < expires_in < math.inf:
            raise SandboxError("InvalidArgument", f"expires_in: {expires_in} must be greater than 0 and finite")
        request = {**self._key, "port": port, "expiresInMs": str(math.ceil(expires_in * 1000))}
        return self._ports.create_url(request, CALL_TIMEOUT)["url"]  # type: ignore[arg-type]

    def pause(self) -> None:
        """Freezes all processes. Time does not pass until `resume`."""
        self._lifecycle.pause(self._key, CALL_TIMEOUT)  # type: ignore[arg-type]

    def resume(self) -> None:
        self._lifecycle.resume(self._key, CALL_TIMEOUT)  # type: ignore[arg-type]

    def renew(self, timeout: float) -> None:
        """Changes the lifetime: it ends this many seconds from now; 0: never. Raises FailedPrecondition if it has expired."""
        expiry = {"expireTimeSeconds": "0"} if timeout == 0 else {"expireInSeconds": str(math.ceil(timeout))}
        self._lifecycle.renew({**self._key, **expiry}, CALL_TIMEOUT)  # type: ignore[typeddict-item]

    def delete(self) -> None:
        """Stops the sandbox and deletes it. Succeeds if it does not exist."""
        try:
            self._sandboxes.delete_sandbox(self._key, CALL_TIMEOUT)  # type: ignore[arg-type]
        except SandboxError as error:
            if error.code != "NotFound":
                raise


def connect(
    endpoint: Optional[str] = None, token: Optional[str] = None, certificate_authority: Optional[str] = None
) -> HttpTransport:
    """The server's connection, by default from the environment.

    `endpoint` (KEELSON_SANDBOX_ENDPOINT) is HOST:PORT or a URL, for TLS with https://. Calls carry `token` (KEELSON_SANDBOX_TOKEN, or the file
    KEELSON_SANDBOX_TOKEN_FILE), else with TLS the credentials of the Pod's service account or of the kubeconfig's current context, which
    requires kubectl. `certificate_authority` (the file KEELSON_SANDBOX_CA_FILE) is the PEM of the authorities to trust.
    """
    address = endpoint or os.environ.get("KEELSON_SANDBOX_ENDPOINT") or "127.0.0.1:9090"
    fixed = token or os.environ.get("KEELSON_SANDBOX_TOKEN") or _read_file("KEELSON_SANDBOX_TOKEN_FILE")
    if not address.startswith("https://"):
        if fixed is None:
            message = "token: is required, or set KEELSON_SANDBOX_TOKEN or KEELSON_SANDBOX_TOKEN_FILE"
            raise SandboxError("Unauthenticated", message)
        return HttpTransport(address, fixed)
    # Credentials of the cluster are sent over TLS only.
    credentials = find_cluster_credentials() if fixed is None else None
    context = tls_context(certificate_authority or _read_file("KEELSON_SANDBOX_CA_FILE"), credentials)
    return HttpTransport(address, fixed if credentials is None else credentials.token, context)


def _read_file(variable: str) -> Optional[str]:
    file = os.environ.get(variable)
    return None if file is None else read_text(variable, file)


def _send_input(command: Command, data: Text) -> None:
    try:
        command.write(data)
        command.close_input()
    except SandboxError:
        # The command has exited without reading all of its input; its end is reported with its output.
        pass


def _kill(command: Command) -> None:
    try:
        command.kill()
    except SandboxError:
        # It ends soon by itself, as nothing follows its output.
        pass


def _info(item: _InfoMessage) -> SandboxInfo:
    expires = int(item.get("expireTimeSeconds", "0"))
    return SandboxInfo(
        name=item.get("sandboxName", ""),
        id=item.get("sandboxId", ""),
        phase=item.get("phase", ""),
        image=item.get("image", ""),
        pool=item.get("poolRef", ""),
        created_at=int(item.get("createdAt", "0")),
        expires_at=expires or None,
        endpoints=item.get("endpoints", []),
    )
