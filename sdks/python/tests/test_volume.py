import unittest

from keelson_sandbox import Sandbox, SandboxError, SandboxVolume


class FakeTransport:
    """Answers calls from a table, and records their requests."""

    def __init__(self, answers):
        self.answers = answers
        self.requests = []

    def unary(self, path, request, timeout):
        method = path.rsplit("/", 1)[1]
        self.requests.append((method, request))
        answer = self.answers.get(method, {})
        if isinstance(answer, SandboxError):
            raise answer
        return answer


class VolumeTest(unittest.TestCase):
    def test_creates_lists_and_deletes_volumes(self):
        item = {"volumeName": "data", "size": "1Gi", "poolRef": "pool", "phase": "Ready", "agentPod": "a", "createdAt": "60", "usedBy": ["one"]}
        transport = FakeTransport({"ListVolumes": {"items": [item]}})
        volume = SandboxVolume.create("data", size="256Mi", transport=transport)
        [info] = SandboxVolume.list(transport=transport)
        self.assertEqual((info.name, info.agent, info.created_at, info.used_by), ("data", "a", 60, ["one"]))
        with self.assertRaises(SandboxError) as raised:
            SandboxVolume.connect("none", transport=transport)
        self.assertEqual(raised.exception.code, "NotFound")
        transport.answers["ResizeVolume"] = {"volumeName": "data", "size": "2Gi", "currentSize": "2Gi"}
        self.assertEqual(volume.resize("2Gi").current_size, "2Gi")
        self.assertEqual(transport.requests[-1][1], {"volumeName": "data", "namespace": "default", "size": "2Gi"})
        volume.delete()
        self.assertEqual(
            [transport.requests[0], transport.requests[-1]],
            [
                ("CreateVolume", {"volumeName": "data", "namespace": "default", "poolRef": "default-pool", "size": "256Mi"}),
                ("DeleteVolume", {"volumeName": "data", "namespace": "default"}),
            ],
        )

    def test_deletes_a_missing_volume_and_none_that_is_in_use(self):
        SandboxVolume(FakeTransport({"DeleteVolume": SandboxError("NotFound", "no")}), "data").delete()
        with self.assertRaises(SandboxError):
            SandboxVolume(FakeTransport({"DeleteVolume": SandboxError("FailedPrecondition", "no")}), "data").delete()

    def test_mounts_volumes_by_path(self):
        transport = FakeTransport({"CreateSandbox": {"sandboxName": "one"}})
        Sandbox.create("host", volumes={"/data": "data", "/models": {"name": "models", "readOnly": True}}, transport=transport)
        self.assertEqual(
            transport.requests[0][1]["volumes"],
            [{"name": "data", "mountPath": "/data"}, {"name": "models", "readOnly": True, "mountPath": "/models"}],
        )


if __name__ == "__main__":
    unittest.main()
