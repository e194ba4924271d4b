import base64
import json
import os
import ssl
import tempfile
import traceback
import unittest
from unittest import mock

from keelson_sandbox import SandboxError, connect, credentials
from keelson_sandbox.credentials import find_cluster_credentials


class CredentialsTest(unittest.TestCase):
    def setUp(self):
        self.user = {}
        self.programs = []
        for patch in (mock.patch.dict(os.environ, clear=True), mock.patch.object(credentials, "_run", self.run_program)):
            patch.start()
            self.addCleanup(patch.stop)

    def run_program(self, command, env):
        self.programs.append((command[0], env))
        if command[0] == "kubectl":
            return {"users": [{"name": "one", "user": self.user}]}
        count = sum(name == command[0] for name, _ in self.programs)
        expiry = "2000-01-01T00:00:00.123456789Z" if count == 1 else "2999-01-01T00:00:00Z"
        return {"kind": "ExecCredential", "status": {"token": f"token-{count}", "expirationTimestamp": expiry}}

    def fails(self, act):
        with self.assertRaises(SandboxError) as caught:
            act()
        self.assertEqual(caught.exception.code, "Unauthenticated", caught.exception)
        return str(caught.exception)

    def test_are_the_service_accounts_in_a_pod_and_read_before_each_call(self):
        os.environ["KUBERNETES_SERVICE_HOST"] = "10.0.0.1"
        with tempfile.TemporaryDirectory() as directory:
            file = os.path.join(directory, "token")
            with mock.patch.object(credentials, "_POD_TOKEN_FILE", file):
                found = find_cluster_credentials()
                for token in ("first", "second"):
                    with open(file, "w", encoding="utf-8") as opened:
                        opened.write(token)
                    self.assertEqual(found.token(), token)

    def test_are_the_kubeconfigs_token_or_client_certificate(self):
        self.user = {"token": "abc"}
        self.assertEqual(find_cluster_credentials().token(), "abc")
        self.user = {
            "client-certificate-data": base64.b64encode(b"C").decode(),
            "client-key-data": base64.b64encode(b"K").decode(),
        }
        found = find_cluster_credentials()
        self.assertEqual((found.token(), found.certificate, found.key), (None, "C", "K"))

    def test_prefer_the_token_file_to_the_token_while_it_can_be_read(self):
        with tempfile.TemporaryDirectory() as directory:
            self.user = {"token": "abc", "tokenFile": os.path.join(directory, "token")}
            found = find_cluster_credentials()
            self.assertEqual(found.token(), "abc")
            with open(self.user["tokenFile"], "w", encoding="utf-8") as opened:
                opened.write("from file")
            self.assertEqual(found.token(), "from file")

    def test_are_requested_from_a_plugin_again_when_they_expire(self):
        self.user = {"exec": {"command": "plugin", "args": ["login"], "env": [{"name": "A", "value": "b"}]}}
        found = find_cluster_credentials()
        self.assertEqual([found.token(), found.token()], ["token-2", "token-2"])
        self.assertEqual([name for name, _ in self.programs], ["kubectl", "plugin", "plugin"])
        env = self.programs[1][1]
        self.assertEqual((env["A"], json.loads(env["KUBERNETES_EXEC_INFO"])["kind"]), ("b", "ExecCredential"))

    def test_name_the_reason_if_the_user_cannot_be_used(self):
        self.assertIn("neither a token nor", self.fails(find_cluster_credentials))
        self.user = {"token": "abc", "as": "root"}
        self.assertIn("impersonation", self.fails(find_cluster_credentials))

    def test_are_used_over_tls_only_and_if_no_token_is_set(self):
        self.user = {"token": "abc"}
        self.fails(lambda: connect("127.0.0.1:1"))
        self.assertEqual(self.programs, [])
        self.assertEqual(connect("https://127.0.0.1:1", "fixed")._token, "fixed")
        self.assertEqual(self.programs, [])
        transport = connect("https://127.0.0.1:1")
        self.assertEqual((transport._token(), transport._tls.verify_mode), ("abc", ssl.CERT_REQUIRED))


class ProgramTest(unittest.TestCase):
    def test_that_fails_or_prints_no_json_is_named(self):
        for command in (["false"], ["echo", "hello"], ["no-such-program"]):
            with self.assertRaises(SandboxError) as caught:
                credentials._run(command, {})
            self.assertIn(command[0], str(caught.exception))
        self.assertEqual(credentials._run(["echo", '{"a": 1}'], {}), {"a": 1})

    def test_that_fails_is_named_without_its_arguments_and_output(self):
        fail, hang = "echo hunter2; exit 3", "exec sleep 3600 # hunter2"
        for script, reason, timeout in ((fail, "sh: failed with exit status 3", 60.0), (hang, "sh: did not exit within", 0.01)):
            with mock.patch.object(credentials, "_PROGRAM_TIMEOUT", timeout):
                with self.assertRaises(SandboxError) as caught:
                    credentials._run(["sh", "-c", script], {})
            error = caught.exception
            self.assertIn(reason, str(error))
            self.assertNotIn("hunter2", "".join(traceback.format_exception(type(error), error, None)))


if __name__ == "__main__":
    unittest.main()
