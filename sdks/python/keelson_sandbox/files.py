"""Files of a sandbox."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Dict, Iterable, Iterator, List, Optional, Union

from .command import CALL_TIMEOUT
from .errors import SandboxError
from .protocol import FileInfo, SandboxFilesClient, WatchFilesResponse, WriteFileRequest

#: Content per message, in bytes.
_CHUNK = 256 * 1024

#: Default limit of `SandboxFiles.read`.
_MAX_READ = 64 * 1024 * 1024

_TYPES = {"FILE_TYPE_FILE": "file", "FILE_TYPE_DIRECTORY": "directory", "FILE_TYPE_SYMLINK": "symlink"}

_CHANGES = ("create", "write", "remove", "rename", "chmod")


@dataclass(frozen=True)
class FileEntry:
    """A file. `type` is file, directory, symlink or other; `modified` is in seconds since the epoch."""

    name: str
    type: str
    size: int
    mode: int
    modified: float
    target: Optional[str]


@dataclass(frozen=True)
class FileChange:
    """A change in a watched directory. `path` is relative to it; "." is the directory itself.

    `type` is create, write, remove, rename (`path` is the former name; the new one is a create if it is in the watched directory too), chmod (mode, owner
    or times), or lost: changes were lost, since they were made faster than they were read, or there are too many directories.
    """

    type: str
    path: str
    is_directory: bool


class FolderWatch:
    """The changes of a watched directory. Use it with `with`, or call `close`."""

    def __init__(self, messages: Iterator[WatchFilesResponse]) -> None:
        """Use `SandboxFiles.watch`."""
        self._messages = messages
        self._changes = self._read()
        if not next(messages, {}).get("started"):
            raise SandboxError("Internal", "the server did not start the watch")

    def __iter__(self) -> Iterator[FileChange]:
        return self._changes

    def _read(self) -> Iterator[FileChange]:
        for message in self._messages:
            if message.get("lostChanges"):
                yield FileChange("lost", ".", True)
            for change in message.get("changes", []):
                name = change.get("type", "").replace("FILE_CHANGE_TYPE_", "").lower()
                if name in _CHANGES:
                    yield FileChange(name, change.get("path", ""), change.get("isDirectory", False))

    def close(self) -> None:
        """Ends the watch. Call it from the thread that iterates."""
        self._messages.close()  # type: ignore[attr-defined]

    def __enter__(self) -> FolderWatch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SandboxFiles:
    """The files of a sandbox. Paths are absolute, or relative to its work directory; every call has the permissions of the sandbox's user."""

    def __init__(self, files: SandboxFilesClient, key: Dict[str, str]) -> None:
        self._files = files
        self._key = key

    def read(self, path: str, max_bytes: int = _MAX_READ) -> bytes:
        """Reads a whole file. Raises ResourceExhausted above `max_bytes` (default: 64 MiB)."""
        data = bytearray()
        for part in self.stream(path):
            data += part
            if len(data) > max_bytes:
                raise SandboxError("ResourceExhausted", f"{path}: exceeds max_bytes, {max_bytes} bytes")
        return bytes(data)

    def read_text(self, path: str, max_bytes: int = _MAX_READ) -> str:
        """Reads a whole file as UTF-8."""
        return self.read(path, max_bytes).decode()

    def stream(self, path: str) -> Iterator[bytes]:
        """Reads a file part by part. Raises if it is replaced in the meantime."""
        for message in self._files.read(self._at(path)):  # type: ignore[arg-type]
            yield base64.b64decode(message.get("data", ""))

    def write(self, path: str, content: Union[str, bytes, Iterable[bytes]], mode: int = 0) -> FileEntry:
        """Writes a file, which is replaced once all of its content has arrived. `mode`: permission bits, default 0o644."""
        start: WriteFileRequest = {"start": {**self._at(path), "mode": mode}}  # type: ignore[typeddict-item]
        return _entry(self._files.write(_requests(start, content)))

    def watch(self, path: str, recursive: bool = False) -> FolderWatch:
        """Watches a directory, and with `recursive` those below it. Every change after this call is reported.

        The changes end when the directory is removed or renamed, and with the sandbox. Close the watch if you stop before:

        >>> with box.files.watch("src", recursive=True) as changes:
        ...     for change in changes:
        ...         print(change.type, change.path)
        """
        return FolderWatch(self._files.watch({**self._at(path), "recursive": recursive}))  # type: ignore[typeddict-item]

    def list(self, path: str = ".") -> List[FileEntry]:
        """The entries of a directory, by name."""
        messages = self._files.list(self._at(path), CALL_TIMEOUT)  # type: ignore[arg-type]
        return [_entry(entry) for message in messages for entry in message.get("entries", [])]

    def stat(self, path: str) -> FileEntry:
        return _entry(self._files.stat(self._at(path), CALL_TIMEOUT))  # type: ignore[arg-type]

    def make_directory(self, path: str) -> None:
        """Creates a directory and its parents."""
        self._files.make_directory(self._at(path), CALL_TIMEOUT)  # type: ignore[arg-type]

    def remove(self, path: str, recursive: bool = False) -> None:
        """Removes a file, or a directory with what is in it if `recursive`."""
        self._files.remove({**self._at(path), "recursive": recursive}, CALL_TIMEOUT)  # type: ignore[typeddict-item]

    def _at(self, path: str) -> Dict[str, str]:
        return {**self._key, "path": path}


def _requests(start: WriteFileRequest, content: Union[str, bytes, Iterable[bytes]]) -> Iterator[WriteFileRequest]:
    yield start
    parts = [content.encode()] if isinstance(content, str) else [content] if isinstance(content, bytes) else content
    for part in parts:
        for position in range(0, len(part), _CHUNK):
            yield {"data": base64.b64encode(part[position : position + _CHUNK]).decode()}
    yield {"commit": True}


def _entry(info: FileInfo) -> FileEntry:
    return FileEntry(
        name=info.get("name", ""),
        type=_TYPES.get(info.get("type", ""), "other"),
        size=int(info.get("sizeBytes", "0")),
        mode=info.get("mode", 0),
        modified=int(info.get("modifiedMs", "0")) / 1000,
        target=info.get("target") or None,
    )
