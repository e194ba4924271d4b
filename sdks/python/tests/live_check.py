"""Checks the client against a server, whose pool has four slots. Run by the repository's end-to-end tests."""

import os
import threading

from keelson_sandbox import Sandbox, SandboxError


def stdout_of(chunks):
    return b"".join(chunk.data for chunk in chunks if chunk.stream == "stdout")


with Sandbox.create(image="host", command=["sh", "-c", "echo up; exec sleep 600"]) as box:
    # More than all buffers between the two ends.
    data = os.urandom(3_000_000)
    echoed = box.exec("cat; echo done >&2; exit 4", stdin=data)
    assert echoed.stdout_bytes == data, len(echoed.stdout_bytes)
    assert (echoed.stderr, echoed.exit_code) == ("done\n", 4)

    seen = threading.Event()
    chunks = []
    running = box.start("trap 'echo caught; exit 5' TERM; echo ready; while :; do sleep 600 & wait $!; done", background=True)
    assert [info.id for info in box.commands() if info.state == "running"] == [running.id]
    for chunk in running.output():
        chunks.append(chunk)
        if not seen.is_set():
            seen.set()
            box.command(running.id).signal("SIGTERM")
    # The shell may report on stderr that the signal has also ended its child.
    assert stdout_of(chunks) == b"ready\ncaught\n", chunks
    assert (running.info.state, running.info.exit_code) == ("exited", 5)
    rest = box.command(running.id).output(offset=chunks[0].next_offset)
    assert stdout_of(rest) == b"caught\n"

    box.files.make_directory("directory")
    box.files.write("directory/data", (data[start : start + 700_000] for start in range(0, len(data), 700_000)), mode=0o600)
    assert box.files.read("directory/data") == data
    assert [(entry.name, entry.size, entry.mode) for entry in box.files.list("directory")] == [("data", len(data), 0o600)]
    box.files.remove("directory", recursive=True)
    try:
        box.files.read("directory/data")
        raise AssertionError("read a removed file")
    except SandboxError as error:
        assert error.code == "NotFound", error.code

    with box.files.watch(".", recursive=True) as changes:
        box.exec("mkdir new")
        first = next(iter(changes))
        assert (first.type, first.path, first.is_directory) == ("create", "new", True), first
        box.exec("echo text >new/file; mv new/file moved")
        seen = []
        for change in changes:
            seen.append((change.type, change.path))
            if change.path == "moved":
                break
    assert seen[0] == ("create", "new/file") and seen[-2:] == [("rename", "new/file"), ("create", "moved")], seen

    assert b"".join(box.logs()) == b"up\n"
    assert Sandbox.connect(box.info().id).name == box.name
    box.renew(60)

boxes = []
try:
    for _ in range(5):
        boxes.append(Sandbox.create(image="host", when_full="reject"))
    raise AssertionError("created more sandboxes than there are slots")
except SandboxError as error:
    assert (error.code, error.retry_after is not None) == ("PoolFull", True), (error, error.code, error.retry_after)
finally:
    for each in boxes:
        each.delete()
print("ok")
