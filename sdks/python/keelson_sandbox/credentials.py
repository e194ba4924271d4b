"""Credentials of the cluster, for a server that authenticates its callers by them."""

from __future__ import annotations

import base64
import json
import os
import re
import ssl
import subprocess
import tempfile
import threading
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Callable, Dict, Mapping, Optional, Sequence

from .errors import SandboxError

_POD_TOKEN_FILE = "/var/run/secrets/kubernetes.io/serviceaccount/token"

#: A token of a plugin is replaced this long before it expires, in seconds.
_LEEWAY = 10.0

#: How long kubectl and plugins may take, in seconds.
_PROGRAM_TIMEOUT = 60.0


@dataclass(frozen=True)
class ClusterCredentials:
    """`token` returns the bearer token of the next call, or None with a client certificate. The certificate and its key are PEM."""

    token: Callable[[], Optional[str]]
    certificate: Optional[str] = None
    key: Optional[str] = None


def find_cluster_credentials() -> ClusterCredentials:
    """The credentials of the Pod's service account, else those of the kubeconfig's current context, as kubectl reads it.

    Raises Unauthenticated if there are none.
    """
    # Unlike kubectl, ~/.kube/config does not override the Pod's service account; KUBECONFIG does.
    if os.environ.get("KUBERNETES_SERVICE_HOST") and not os.environ.get("KUBECONFIG"):
        return ClusterCredentials(lambda: read_text("service account", _POD_TOKEN_FILE))
    user = _kubeconfig_user()
    if user.get("as"):
        raise _unusable("impersonation (as) is not supported")
    if user.get("tokenFile") or user.get("token"):
        return ClusterCredentials(lambda: _static_token(user))
    if user.get("exec"):
        plugin = _Plugin(user["exec"])
        return ClusterCredentials(plugin.token, plugin.status.get("clientCertificateData"), plugin.status.get("clientKeyData"))
    certificate, key = user.get("client-certificate-data"), user.get("client-key-data")
    if not certificate or not key:
        raise _unusable("it has neither a token nor a client certificate")
    return ClusterCredentials(lambda: None, base64.b64decode(certificate).decode(), base64.b64decode(key).decode())


def tls_context(authority: Optional[str], credentials: Optional[ClusterCredentials]) -> ssl.SSLContext:
    """A context that trusts these authorities (PEM; default: those of the system) and has the client certificate, if there is one."""
    context = ssl.create_default_context(cadata=authority)
    if credentials is not None and credentials.certificate and credentials.key:
        # The ssl module reads certificates from files only. The file has mode 0600.
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(f"{credentials.certificate}\n{credentials.key}\n")
            file.flush()
            context.load_cert_chain(file.name)
    return context


def read_text(name: str, file: str) -> str:
    """The content of a file that `name` names. Raises Unauthenticated."""
    try:
        with open(file, encoding="utf-8") as opened:
            return opened.read()
    except OSError as error:
        raise SandboxError("Unauthenticated", f"{name}: could not read {file}: {error}") from error


def _static_token(user: Mapping[str, Any]) -> str:
    """The token of a user. As in client-go, a file with a token takes precedence."""
    fallback = str(user.get("token") or "")
    if not user.get("tokenFile"):
        return fallback
    try:
        return read_text("tokenFile", str(user["tokenFile"])).strip() or fallback
    except SandboxError:
        if not fallback:
            raise
        return fallback


class _Plugin:
    """A program that prints credentials (client.authentication.k8s.io ExecCredential).

    It runs again when its token expires. A client certificate is not renewed.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        if not settings.get("command"):
            raise _unusable("exec.command is missing")
        self.status = self._request()
        if not self.status.get("token") and not (self.status.get("clientCertificateData") and self.status.get("clientKeyData")):
            raise _unusable(f"{settings['command']} printed neither a token nor a client certificate")

    def token(self) -> Optional[str]:
        with self._lock:
            expiry = self.status.get("expirationTimestamp")
            if expiry and self.status.get("token"):
                # Python 3.9 parses neither Z nor nanoseconds.
                text = re.sub(r"\.\d+", "", expiry).replace("Z", "+00:00")
                left = datetime.fromisoformat(text) - datetime.now(timezone.utc)
                if left.total_seconds() <= _LEEWAY:
                    self.status = self._request()
            return self.status.get("token")

    def _request(self) -> Dict[str, Any]:
        settings = self._settings
        info = {"apiVersion": settings.get("apiVersion"), "kind": "ExecCredential", "spec": {"interactive": False}}
        env = {each["name"]: each["value"] for each in settings.get("env") or []}
        command = [settings["command"], *(settings.get("args") or [])]
        return _run(command, {**env, "KUBERNETES_EXEC_INFO": json.dumps(info)}).get("status") or {}


def _kubeconfig_user() -> Dict[str, Any]:
    """Asks kubectl, which merges the files of KUBECONFIG and inlines the files of certificates."""
    try:
        config = _run(["kubectl", "config", "view", "--raw", "--minify", "--flatten", "-o", "json"], {})
    except SandboxError as error:
        advice = "set KEELSON_SANDBOX_TOKEN or KEELSON_SANDBOX_TOKEN_FILE, or install kubectl and select a context"
        raise SandboxError("Unauthenticated", f"no credentials: {advice}: {error}") from error
    users = config.get("users") or [{}]
    return users[0].get("user") or {}


def _run(command: Sequence[str], env: Mapping[str, str]) -> Dict[str, Any]:
    """The JSON that a program prints."""
    try:
        done = subprocess.run(
            command, env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True, timeout=_PROGRAM_TIMEOUT
        )
        value = json.loads(done.stdout)
    # The errors of subprocess and json have the arguments and the output, which may contain secrets.
    except subprocess.CalledProcessError as error:
        raise SandboxError("Unauthenticated", f"{command[0]}: failed with exit status {error.returncode}") from None
    except subprocess.TimeoutExpired:
        raise SandboxError("Unauthenticated", f"{command[0]}: did not exit within {_PROGRAM_TIMEOUT:g} s") from None
    except OSError as error:
        raise SandboxError("Unauthenticated", f"{command[0]}: could not be run: {error.strerror}") from None
    except ValueError:
        raise SandboxError("Unauthenticated", f"{command[0]}: printed no JSON") from None
    return value if isinstance(value, dict) else {}


def _unusable(problem: str) -> SandboxError:
    return SandboxError("Unauthenticated", f"the user of the kubeconfig cannot be used: {problem}; set KEELSON_SANDBOX_TOKEN")
