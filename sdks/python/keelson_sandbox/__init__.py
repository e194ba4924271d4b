"""Client for Keelson sandboxes: run untrusted code in isolated sandboxes, with files, ports and logs."""

from .command import Command, CommandInfo, ExecResult, OutputChunk
from .errors import SandboxError
from .files import FileEntry, SandboxFiles
from .sandbox import Sandbox, SandboxInfo, connect
from .volume import SandboxVolume, VolumeInfo

__all__ = [
    "Command",
    "CommandInfo",
    "ExecResult",
    "FileEntry",
    "OutputChunk",
    "Sandbox",
    "SandboxError",
    "SandboxFiles",
    "SandboxInfo",
    "SandboxVolume",
    "VolumeInfo",
    "connect",
]
