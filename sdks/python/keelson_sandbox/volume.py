"""Volumes, which outlive sandboxes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Optional, Sequence

from .errors import SandboxError
from .protocol import SandboxVolumesClient, Transport
from .protocol import VolumeInfo as _InfoMessage
from .sandbox import connect

#: Deadline of a call that waits for an agent, in seconds.
_DEADLINE = 90.0


@dataclass(frozen=True)
class VolumeInfo:
    """What the server says about a volume. `created_at` is in seconds since the epoch; `message` says why it is not ready.

    `current_size` is the current size, smaller than `size` while the volume grows; empty until it is created.
    """

    name: str
    pool: str
    size: str
    phase: str
    message: str
    agent: str
    created_at: int
    used_by: Sequence[str]
    current_size: str


class SandboxVolume:
    """Storage that outlives sandboxes. One sandbox at a time can write to it, or several can read it.

    >>> data = SandboxVolume.create("data", size="256Mi")
    >>> with Sandbox.create(image="host", volumes={"/data": data.name}) as box:
    ...     box.files.write("/data/result", "42")
    """

    def __init__(self, transport: Transport, name: str, namespace: str = "default") -> None:
        self.name = name
        self._key = {"volumeName": name, "namespace": namespace}
        self._volumes = SandboxVolumesClient(transport)

    @classmethod
    def create(
        cls,
        name: str,
        *,
        size: str = "1Gi",
        pool: str = "default-pool",
        namespace: str = "default",
        transport: Optional[Transport] = None,
        **connection: str,
    ) -> "SandboxVolume":
        """Creates a volume, which sandboxes can use when this returns. Raises AlreadyExists, and ResourceExhausted if no agent has room."""
        transport = transport or connect(**connection)
        request = {"volumeName": name, "namespace": namespace, "poolRef": pool, "size": size}
        SandboxVolumesClient(transport).create_volume(request, _DEADLINE)  # type: ignore[arg-type]
        return cls(transport, name, namespace)

    @classmethod
    def list(
        cls, *, namespace: str = "default", transport: Optional[Transport] = None, **connection: str
    ) -> List[VolumeInfo]:
        """Lists the volumes of a namespace."""
        transport = transport or connect(**connection)
        answer = SandboxVolumesClient(transport).list_volumes({"namespace": namespace}, _DEADLINE)
        return [_info(item) for item in answer.get("items", [])]

    @classmethod
    def connect(
        cls, name: str, *, namespace: str = "default", transport: Optional[Transport] = None, **connection: str
    ) -> "SandboxVolume":
        """A volume that exists. Raises NotFound."""
        transport = transport or connect(**connection)
        if not any(info.name == name for info in cls.list(namespace=namespace, transport=transport)):
            raise SandboxError("NotFound", f"volume {name} not found")
        return cls(transport, name, namespace)

    def resize(self, size: str) -> VolumeInfo:
        """Grows the volume to a quantity, even while sandboxes use it. Returns when it has the size.

        Raises InvalidArgument if it would shrink, ResourceExhausted if its agent has no room, and FailedPrecondition while the agent does not report.
        """
        return _info(self._volumes.resize_volume({**self._key, "size": size}, _DEADLINE))  # type: ignore[typeddict-item]

    def delete(self) -> None:
        """Deletes the volume with its files. Succeeds if it does not exist. Raises FailedPrecondition while sandboxes use it."""
        try:
            self._volumes.delete_volume(self._key, _DEADLINE)  # type: ignore[arg-type]
        except SandboxError as error:
            if error.code != "NotFound":
                raise


def _info(item: _InfoMessage) -> VolumeInfo:
    return VolumeInfo(
        name=item.get("volumeName", ""),
        pool=item.get("poolRef", ""),
        size=item.get("size", ""),
        phase=item.get("phase", ""),
        message=item.get("message", ""),
        agent=item.get("agentPod", ""),
        created_at=int(item.get("createdAt", "0")),
        used_by=item.get("usedBy", []),
        current_size=item.get("currentSize", ""),
    )
