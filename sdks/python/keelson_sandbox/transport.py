"""The Connect protocol with JSON over HTTP/1.1, with nothing but the standard library."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import struct
from typing import Callable, Dict, Iterable, Iterator, Mapping, Optional, Tuple, Union
from urllib.parse import urlsplit

from .errors import CODES, SandboxError

_RETRY_HEADER = "grpc-retry-pushback-ms"

#: Flag of an envelope that is the last one of a stream: its JSON has the error, if there is one.
_END_STREAM = 2

#: How long a call waits for a connection, in seconds.
_CONNECT_TIMEOUT = 10.0

#: How much longer than its own deadline a call waits for the server's answer, in seconds.
_GRACE = 5.0


class HttpTransport:
    """Sends each call over its own connection, so that threads can share it."""

    def __init__(
        self,
        endpoint: str,
        token: Union[str, Callable[[], Optional[str]], None],
        tls: Optional[ssl.SSLContext] = None,
    ) -> None:
        """`token` is a text, or a function that returns the one of the next call; None with a client certificate in `tls`."""
        url = urlsplit(endpoint if "://" in endpoint else f"http://{endpoint}")
        if url.scheme not in ("http", "https") or not url.hostname:
            raise SandboxError("InvalidArgument", f"endpoint: {endpoint} must be of the form 127.0.0.1:9090")
        self._is_secure = url.scheme == "https"
        self._host = url.hostname
        self._port = url.port
        self._tls = tls
        # Fails now if a fixed token cannot be used.
        self._token = _parse_token(token) if isinstance(token, str) else token

    def unary(self, path: str, request: object, timeout: Optional[float]) -> dict:
        connection = self._connect(timeout)
        try:
            response = self._send(connection, path, json.dumps(request).encode(), "application/json", timeout)
            body = _read(response)
            if response.status != 200:
                raise _error(_json(body), response.headers, response.status)
            return _json(body)
        finally:
            connection.close()

    def server_stream(self, path: str, request: object, timeout: Optional[float]) -> Iterator[dict]:
        connection = self._connect(timeout)
        try:
            response = self._send(connection, path, _envelope(request), "application/connect+json", timeout)
            yield from _messages(response)
        finally:
            connection.close()

    def client_stream(self, path: str, requests: Iterable[object], timeout: Optional[float]) -> dict:
        connection = self._connect(timeout)
        try:
            body = (_envelope(request) for request in requests)
            response = self._send(connection, path, body, "application/connect+json", timeout)
            answers = list(_messages(response))
            if len(answers) != 1:
                raise SandboxError("Internal", f"expected one answer from the server, got {len(answers)}")
            return answers[0]
        finally:
            connection.close()

    def _connect(self, timeout: Optional[float]) -> http.client.HTTPConnection:
        connection = (
            http.client.HTTPSConnection(self._host, self._port, timeout=_CONNECT_TIMEOUT, context=self._tls)
            if self._is_secure
            else http.client.HTTPConnection(self._host, self._port, timeout=_CONNECT_TIMEOUT)
        )
        try:
            connection.connect()
        except OSError as error:
            raise SandboxError("Unavailable", f"could not connect to {self._host}:{self._port}: {error}") from error
        connection.sock.settimeout(None if timeout is None else timeout + _GRACE)
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _keep_alive(connection.sock)
        return connection

    def _send(
        self,
        connection: http.client.HTTPConnection,
        path: str,
        body: object,
        content_type: str,
        timeout: Optional[float],
    ) -> http.client.HTTPResponse:
        token = self._token if isinstance(self._token, str) or self._token is None else self._token()
        headers: Dict[str, str] = {
            **({} if token is None else {"authorization": f"Bearer {_parse_token(token)}"}),
            "connect-protocol-version": "1",
            "content-type": content_type,
        }
        if timeout is not None:
            headers["connect-timeout-ms"] = str(max(int(timeout * 1000), 1))
        try:
            connection.request("POST", path, body, headers, encode_chunked=not isinstance(body, bytes))  # type: ignore[arg-type]
            return connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise _lost(error) from error


def _keep_alive(connection: socket.socket) -> None:
    """Detects within two minutes a server that has disappeared while a call waits for its output."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # The system's default is two hours. macOS names the idle time differently.
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPALIVE", 30), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 5)):
        option = getattr(socket, name, None)
        if option is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)


def _parse_token(text: str) -> str:
    """The token without surrounding white space. An invalid header value would be part of the error of every call."""
    token = text.strip()
    if not token or not all("!" <= character <= "~" for character in token):
        raise SandboxError("InvalidArgument", "token: must be printable ASCII characters without spaces")
    return token


def _envelope(message: object) -> bytes:
    data = json.dumps(message).encode()
    return struct.pack(">BI", 0, len(data)) + data


def _messages(response: http.client.HTTPResponse) -> Iterator[dict]:
    """The messages of a stream. Raises the error that ends it."""
    if response.status != 200:
        raise _error(_json(_read(response)), response.headers, response.status)
    while True:
        flags, data = _read_envelope(response)
        message = _json(data)
        if not flags & _END_STREAM:
            yield message
            continue
        if "error" in message:
            metadata = {name: values[0] for name, values in message.get("metadata", {}).items() if values}
            raise _error(message["error"], metadata)
        return


def _read_envelope(response: http.client.HTTPResponse) -> Tuple[int, bytes]:
    flags, length = struct.unpack(">BI", _read_exactly(response, 5))
    return flags, _read_exactly(response, length)


def _read_exactly(response: http.client.HTTPResponse, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = _read(response, size - len(data))
        if not part:
            raise SandboxError("Unavailable", "the connection was closed before the call ended")
        data += part
    return data


def _read(response: http.client.HTTPResponse, size: Optional[int] = None) -> bytes:
    try:
        return response.read(size)
    except (OSError, http.client.HTTPException) as error:
        raise _lost(error) from error


def _lost(error: Exception) -> SandboxError:
    if isinstance(error, socket.timeout):
        return SandboxError("TimedOut", "the server did not respond in time")
    return SandboxError("Unavailable", f"lost the connection to the server: {error}")


def _json(data: bytes) -> dict:
    try:
        value = json.loads(data or b"{}")
    except ValueError:
        return {"message": data[:200].decode(errors="replace")}
    return value if isinstance(value, dict) else {}


def _error(error: Mapping[str, str], metadata: Mapping[str, str], status: int = 200) -> SandboxError:
    retry = metadata.get(_RETRY_HEADER) or metadata.get(f"trailer-{_RETRY_HEADER}")
    code = CODES.get(error.get("code", ""), "Internal")
    message = error.get("message") or f"the server responded with status {status}"
    return SandboxError(code, message, None if retry is None else int(retry) / 1000)
