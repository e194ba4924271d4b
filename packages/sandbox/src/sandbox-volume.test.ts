import { Code, ConnectError, createRouterTransport } from "@connectrpc/connect";
import { expect, it } from "vitest";
import { createRequest } from "./create-options.ts";
import { SandboxVolumes } from "./generated/keelson/sandboxes/v1/volumes_pb.ts";
import { SandboxVolume } from "./sandbox-volume.ts";

function fakeServer(problem?: Code) {
  const calls: object[] = [];
  const transport = createRouterTransport((router) => {
    router.service(SandboxVolumes, {
      createVolume({ volumeName, namespace, poolRef, size }) {
        calls.push({ volumeName, namespace, poolRef, size });
        return { volumeName };
      },
      listVolumes: () => ({
        items: [
          { volumeName: "data", size: "1Gi", poolRef: "pool", phase: "Ready", agentPod: "a", createdAt: 60n, usedBy: ["one"] },
        ],
      }),
      resizeVolume: ({ volumeName, size }) => ({ volumeName, size, currentSize: size }),
      deleteVolume({ volumeName }) {
        if (problem !== undefined) throw new ConnectError("no", problem);
        calls.push({ deleted: volumeName });
        return {};
      },
    });
  });
  return { calls, transport };
}

it("creates, lists, finds and deletes volumes", async () => {
  const { calls, transport } = fakeServer();
  const volume = await SandboxVolume.create("data", { transport, size: "256Mi" });
  await SandboxVolume.create("more", { transport, namespace: "team", pool: "pool" });
  expect(await SandboxVolume.list({ transport })).toEqual([
    {
      ...{ name: "data", size: "1Gi", currentSize: "", pool: "pool", phase: "Ready", message: "", agent: "a", usedBy: ["one"] },
      createdAt: new Date("1970-01-01T00:01:00Z"),
    },
  ]);
  await expect(SandboxVolume.connect("none", { transport })).rejects.toMatchObject({ code: "NotFound" });
  expect(await volume.resize("2Gi")).toMatchObject({ name: "data", size: "2Gi", currentSize: "2Gi" });
  await volume.delete();
  expect(calls).toEqual([
    { volumeName: "data", namespace: "default", poolRef: "default-pool", size: "256Mi" },
    { volumeName: "more", namespace: "team", poolRef: "pool", size: "1Gi" },
    { deleted: "data" },
  ]);
});

it("deletes a volume that does not exist, and none that is in use", async () => {
  const absent = await SandboxVolume.connect("data", { transport: fakeServer(Code.NotFound).transport });
  await absent.delete();
  const used = await SandboxVolume.connect("data", { transport: fakeServer(Code.FailedPrecondition).transport });
  await expect(used.delete()).rejects.toMatchObject({ code: "FailedPrecondition" });
});

it("mounts volumes by path", () => {
  const volumes = { "/data": "data", "/models": { name: "models", readOnly: true } };
  expect(createRequest({ image: "host", volumes }, 0).volumes).toEqual([
    { name: "data", mountPath: "/data" },
    { name: "models", readOnly: true, mountPath: "/models" },
  ]);
});
