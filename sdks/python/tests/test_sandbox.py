import base64
import json
import math
import os
import socket
import struct
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from unittest import mock

from keelson_sandbox import Command, Sandbox, SandboxError, connect


def b64(data):
    return base64.b64encode(data).decode()


def envelope(message, flags=0):
    data = json.dumps(message).encode()
    return struct.pack(">BI", flags, len(data)) + data


def end(error=None, metadata=None):
    message = {} if error is None else {"error": error, "metadata": metadata or {}}
    return envelope(message, flags=2)


def exited(code, state="EXITED"):
    return {"exit": {"processId": "p", "state": f"PROCESS_STATE_{state}", "exitCode": code}}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        if self.headers.get("transfer-encoding") == "chunked":
            body = b""
            while True:
                size = int(self.rfile.readline(), 16)
                body += self.rfile.read(size)
                self.rfile.readline()
                if size == 0:
                    break
        else:
            body = self.rfile.read(int(self.headers["content-length"]))
        self.server.test.answer(self, self.path.rsplit("/", 1)[1], body)

    def reply(self, status, body, content_type="application/json", headers=()):
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


class SandboxTest(unittest.TestCase):
    def setUp(self):
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.test = self
        self.server.daemon_threads = True
        thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.transport = connect(f"127.0.0.1:{self.server.server_port}", "secret")
        self.calls = []
        self.answers = {}
        self.input = b""
        self.input_lock = threading.Lock()
        self.accepts = []
        self.input_ended = threading.Event()
        self.box = Sandbox(self.transport, "one")

    def answer(self, handler, method, body):
        """Answers a call with the next of `answers`: bytes are the body of a stream, None closes the connection."""
        if handler.headers["authorization"] != "Bearer secret":
            handler.reply(401, json.dumps({"code": "unauthenticated", "message": "bearer token required"}).encode())
            return
        is_stream = handler.headers["content-type"] == "application/connect+json"
        requests = []
        while is_stream and body:
            _, length = struct.unpack(">BI", body[:5])
            requests.append(json.loads(body[5 : 5 + length]))
            body = body[5 + length :]
        request = requests if is_stream else json.loads(body)
        self.calls.append((method, request))
        if method == "WriteInput":
            with self.input_lock:
                is_lost = bool(self.accepts) and self.accepts[0] == "lost"
                if is_lost:
                    self.accepts.pop(0)
                # What was accepted before is skipped.
                rest = base64.b64decode(request["data"])[len(self.input) - int(request["offset"]) :]
                self.input += rest[: self.accepts.pop(0) if self.accepts else None]
            if request["end"]:
                self.input_ended.set()
            if is_lost:
                handler.reply(503, b'{"code": "unavailable", "message": "lost the agent"}')
            else:
                handler.reply(200, json.dumps({"acceptedBytes": str(len(self.input))}).encode())
            return
        answer = self.answers.get(method, {})
        if isinstance(answer, list):
            answer = answer.pop(0)
        if callable(answer):
            answer = answer()
        if isinstance(answer, tuple):
            handler.reply(*answer)
        elif isinstance(answer, bytes):
            handler.reply(200, answer, "application/connect+json")
        else:
            handler.reply(200, json.dumps(answer).encode())

    def methods(self):
        return [method for method, _ in self.calls]

    def request(self, method):
        return next(request for name, request in self.calls if name == method)

    def fails(self, code, act):
        with self.assertRaises(SandboxError) as caught:
            act()
        self.assertEqual(caught.exception.code, code, caught.exception)
        return caught.exception

    def test_creates_a_sandbox_and_deletes_it_at_the_end_of_the_block(self):
        self.answers["CreateSandbox"] = {"sandboxName": "sb-1"}
        self.answers["DeleteSandbox"] = (404, b'{"code": "not_found", "message": "not found"}')
        with Sandbox.create(
            image="host",
            timeout=0,
            when_full="reject",
            network={"allow": [{"host": "pypi.org", "ports": [443]}]},
            transport=self.transport,
        ) as box:
            self.assertEqual(box.name, "sb-1")
        request = self.request("CreateSandbox")
        self.assertEqual(request["network"], "allowList")
        self.assertEqual(request["networkAllow"], [{"host": "pypi.org", "ports": [443]}])
        self.assertEqual((request["expireTimeSeconds"], request["whenFull"]), ("0", "WHEN_FULL_REJECT"))
        self.assertEqual(self.methods(), ["CreateSandbox", "DeleteSandbox"])

    def test_reports_a_full_pool_with_the_hint_when_to_retry(self):
        body = b'{"code": "resource_exhausted", "message": "no free slot"}'
        self.answers["CreateSandbox"] = (429, body, "application/json", [("grpc-retry-pushback-ms", "1500")])
        error = self.fails("PoolFull", lambda: Sandbox.create(image="host", transport=self.transport))
        self.assertEqual((str(error), error.retry_after), ("no free slot", 1.5))

    def test_finds_a_sandbox_by_name_or_id(self):
        self.answers["ListSandboxes"] = {"items": [{"sandboxName": "one", "sandboxId": "id-1", "createdAt": "5"}]}
        self.assertEqual(Sandbox.connect("id-1", transport=self.transport).name, "one")
        self.fails("NotFound", lambda: Sandbox.connect("none", transport=self.transport))

    def test_creates_urls_of_ports(self):
        self.answers["CreateUrl"] = {"url": "http://8080-one.sandbox.localhost/"}
        self.assertEqual(self.box.url(8080, expires_in=90), "http://8080-one.sandbox.localhost/")
        for expires_in in (0, -1, math.inf, math.nan):
            with self.assertRaises(SandboxError) as raised:
                self.box.url(8080, expires_in=expires_in)
            self.assertEqual(raised.exception.code, "InvalidArgument")
        request = {"sandboxName": "one", "namespace": "default", "port": 8080, "expiresInMs": "90000"}
        self.assertEqual(self.request("CreateUrl"), request)

    def test_requires_a_token_and_a_server(self):
        with mock.patch.dict(os.environ, clear=True):
            self.fails("Unauthenticated", connect)
        stranger = connect(f"127.0.0.1:{self.server.server_port}", "guessed")
        self.fails("Unauthenticated", lambda: Sandbox.list(transport=stranger))
        self.fails("Unavailable", lambda: Sandbox.list(transport=connect("127.0.0.1:1", "secret")))
        self.fails("InvalidArgument", lambda: connect("ftp://x", "secret"))

    def test_runs_a_command_with_input_and_returns_its_outputs(self):
        self.accepts = [2, 0]

        def output():
            # The command reads its input first.
            self.input_ended.wait(30)
            return (
                envelope({"stdout": b64(b"out")})
                + envelope({"offset": "3", "stderr": b64(b"err")})
                + envelope(exited(3))
                + end()
            )

        self.answers.update(Start={"processId": "p"}, Output=output)
        result = self.box.exec("cat", stdin="typed", env={"A": "b"}, working_dir="/tmp", user="7:8", timeout=1.5)
        self.assertEqual((result.stdout, result.stderr, result.exit_code), ("out", "err", 3))
        self.assertEqual(self.input, b"typed")
        start = self.request("Start")
        self.assertEqual(start["command"], ["sh", "-c", "cat"])
        self.assertEqual((start["workingDir"], start["user"]), ("/tmp", "7:8"))
        self.assertEqual((start["timeoutMs"], start["maxUnattendedMs"], start["stdin"]), ("1500", "30000", True))

    def test_writes_after_what_a_command_has_accepted_and_one_write_at_a_time(self):
        self.input = b"before "
        command = self.box.command("p")
        self.accepts = [0, 2, 1]
        writes = [threading.Thread(target=command.write, args=(text,)) for text in ("first ", "other ")]
        for write in writes:
            write.start()
        for write in writes:
            write.join()
        command.close_input()
        self.assertIn(self.input, (b"before first other ", b"before other first "))
        self.assertTrue(self.input_ended.is_set())

    def test_does_not_repeat_input_that_a_failed_write_has_passed_on(self):
        command = Command(self.box._processes, self.box._key, "p", 0)
        self.accepts = ["lost"]
        self.fails("Unavailable", lambda: command.write("first "))
        command.write("second")
        self.assertEqual(self.input, b"first second")

    def test_detects_a_server_that_has_disappeared(self):
        connection = self.transport._connect(None)
        self.addCleanup(connection.close)
        options = [socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT]
        values = [connection.sock.getsockopt(socket.IPPROTO_TCP, option) for option in options]
        self.assertEqual(values, [30, 15, 5])
        self.assertNotEqual(connection.sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), 0)

    def test_rejects_a_token_that_no_header_can_contain_without_showing_it(self):
        for token in ("s3cr3t\nx", "s3cr3t\u00e9", "s3cr3t\u20ac", " "):
            error = self.fails("InvalidArgument", lambda: connect("127.0.0.1:1", token))
            self.assertNotIn("s3cr3t", str(error))
        transport = connect(f"127.0.0.1:{self.server.server_port}", " secret\n")
        self.answers["ListSandboxes"] = {}
        self.assertEqual(Sandbox.list(transport=transport), [])

    def test_continues_an_output_after_dropped_connections(self):
        self.answers.update(
            Start={"processId": "p"},
            Output=[
                envelope({"stdout": b64(b"ab")}) + b"\0\0",
                end({"code": "unavailable", "message": "lost the agent"}),
                envelope({"stdout": b64(b"cd")}) + envelope(exited(0)) + end(),
            ],
        )
        self.assertEqual(self.box.exec(["x"]).stdout, "abcd")
        offsets = [request[0]["offset"] for method, request in self.calls if method == "Output"]
        self.assertEqual(offsets, ["0", "2", "2"])

    def test_kills_a_command_whose_output_is_lost_or_too_long(self):
        self.answers.update(Start={"processId": "p"}, Output=envelope({"lostBytes": "5"}) + end())
        self.fails("OutputLost", lambda: self.box.exec(["x"]))
        self.answers["Output"] = envelope({"stdout": b64(b"long")}) + end()
        self.fails("ResourceExhausted", lambda: self.box.exec(["x"], max_output_bytes=3))
        self.assertEqual([request["signal"] for method, request in self.calls if method == "Signal"], ["SIGKILL"] * 2)

    def test_kills_a_command_if_the_caller_is_interrupted(self):
        self.answers.update(Start={"processId": "p"}, Output=envelope({"stdout": b64(b"a")}) + end())

        def interrupt(_chunk):
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            self.box.exec(["x"], on_output=interrupt)
        self.assertIn("Signal", self.methods())

    def test_reports_a_timeout_and_a_failed_command(self):
        self.answers.update(Start={"processId": "p"}, Output=envelope(exited(137, "TIMED_OUT")) + end())
        self.fails("TimedOut", lambda: self.box.exec(["x"], timeout=1))
        self.answers["Output"] = envelope(exited(2)) + end()
        self.fails("CommandFailed", lambda: self.box.exec(["x"], check=True))
        self.assertEqual(self.box.exec(["x"]).exit_code, 2)

    def test_reads_and_writes_files(self):
        self.answers["Read"] = envelope({"data": b64(b"abc")}) + envelope({"data": b64(b"def")}) + end()
        self.assertEqual(self.box.files.read_text("x"), "abcdef")
        self.fails("ResourceExhausted", lambda: self.box.files.read("x", max_bytes=5))
        self.answers["Write"] = envelope({"name": "x", "type": "FILE_TYPE_FILE", "sizeBytes": "4"}) + end()
        entry = self.box.files.write("x", [b"ab", b"cd"], mode=0o600)
        self.assertEqual((entry.name, entry.type, entry.size), ("x", "file", 4))
        sent = self.request("Write")
        self.assertEqual([next(iter(each)) for each in sent], ["start", "data", "data", "commit"])
        self.answers["Read"] = end({"code": "not_found", "message": "x does not exist"})
        self.fails("NotFound", lambda: self.box.files.read("x"))
        self.answers["List"] = envelope({"entries": [{"name": "a", "type": "FILE_TYPE_DIRECTORY"}]}) + end()
        self.assertEqual([entry.type for entry in self.box.files.list()], ["directory"])

    def test_watches_a_folder(self):
        created = {"type": "FILE_CHANGE_TYPE_CREATE", "path": "a", "isDirectory": True}
        later = {"type": "FILE_CHANGE_TYPE_OF_A_LATER_VERSION", "path": "b"}
        self.answers["Watch"] = envelope({"started": True}) + envelope({"changes": [created, later], "lostChanges": True}) + end()
        with self.box.files.watch("src", recursive=True) as changes:
            seen = [(change.type, change.path, change.is_directory) for change in changes]
        self.assertEqual(seen, [("lost", ".", True), ("create", "a", True)])
        self.assertEqual(self.request("Watch")[0]["recursive"], True)
        self.answers["Watch"] = end({"code": "failed_precondition", "message": "x: not a directory"})
        self.fails("FailedPrecondition", lambda: self.box.files.watch("x"))


if __name__ == "__main__":
    unittest.main()
