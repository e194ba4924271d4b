"""Client for Keelson sandboxes: run untrusted code in isolated sandboxes, with files, ports and logs."""

from .command import Command, CommandInfo, ExecResult, OutputChunk
from .errors import SandboxError
from .files import FileChange, FileEntry, FolderWatch, SandboxFiles
from .sandbox import Sandbox, SandboxInfo, connect
from .volume import SandboxVolume, VolumeInfo

__all__ = [
    "Command",
    "CommandInfo",
    "ExecResult",
    "FileChange",
    "FileEntry",
    "FolderWatch",
    "OutputChunk",
    "Sandbox",
    "SandboxError",
    "SandboxFiles",
    "SandboxInfo",
    "SandboxVolume",
    "VolumeInfo",
    "connect",
]
