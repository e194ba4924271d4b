"""Builds the wheel of this package, which is pure Python (PEP 517). Metadata are those of pyproject.toml."""

from __future__ import annotations

import base64
import hashlib
import re
import zipfile
from pathlib import Path
from typing import Any, Dict, Optional

_ROOT = Path(__file__).resolve().parent.parent
_PACKAGE = "keelson_sandbox"
_WHEEL = "Wheel-Version: 1.0\nGenerator: keelson\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def build_wheel(wheel_directory: str, config_settings: Optional[Dict[str, Any]] = None, metadata_directory: Optional[str] = None) -> str:
    """Writes the wheel and returns the name of its file."""
    version = _field("version")
    info = f"{_PACKAGE}-{version}.dist-info"
    files = {str(path.relative_to(_ROOT)): path.read_bytes() for path in sorted((_ROOT / _PACKAGE).glob("*.py"))}
    files[f"{_PACKAGE}/py.typed"] = b""
    files[f"{info}/METADATA"] = _metadata(version).encode()
    files[f"{info}/WHEEL"] = _WHEEL.encode()
    files[f"{info}/LICENSE"] = (_ROOT / "LICENSE").read_bytes()
    record = "".join(f"{name},{_digest(data)},{len(data)}\n" for name, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    wheel = f"{_PACKAGE}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(Path(wheel_directory) / wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return wheel


def _field(name: str) -> str:
    # tomllib is not part of every supported Python.
    match = re.search(rf'^{name} = "(.*)"$', (_ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        raise ValueError(f"pyproject.toml has no {name}")
    return match.group(1)


def _metadata(version: str) -> str:
    readme = (_ROOT / "README.md").read_text(encoding="utf-8")
    return (
        f"Metadata-Version: 2.1\nName: {_field('name')}\nVersion: {version}\nSummary: {_field('description')}\nLicense: Apache-2.0\n"
        f"Requires-Python: {_field('requires-python')}\nDescription-Content-Type: text/markdown\n\n{readme}"
    )


def _digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
