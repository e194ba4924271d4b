import { readdirSync } from "node:fs";
import { join } from "node:path";
import { Code } from "@connectrpc/connect";
import { Pod } from "@keelson/api-machinery/kinds";
import { watched } from "@keelson/client/testing";
import { Sandbox as SandboxClient, SandboxVolume as VolumeClient } from "@keelson/sandbox";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Sandbox } from "./api/sandbox.ts";
import { SandboxPool } from "./api/sandbox-pool.ts";
import { SandboxVolume } from "./api/sandbox-volume.ts";
import { type LocalSandboxes, namespace, startLocalSandboxes } from "./testing/local-sandboxes.ts";
import { canMountVolumes } from "./testing/volume-support.ts";

/** Waits for a phase of a SandboxVolume. */
const phaseOf = (local: LocalSandboxes, name: string, phase: string) =>
  watched(local.client, SandboxVolume, name, (each) => each?.status?.phase === phase);

describe("volumes of sandboxes", () => {
  let local: LocalSandboxes;

  beforeAll(async () => {
    local = await startLocalSandboxes();
    await local.pool({ poolMin: 2, poolMax: 2 }, 3);
  });

  afterAll(() => local.stop());

  it("cannot have an invalid size, change it, or be mounted over the system", async () => {
    const create = (size: string) => local.volumes.createVolume({ volumeName: "bad", poolRef: "pool", size });
    await expect(create("1Ki")).rejects.toMatchObject({
      code: Code.InvalidArgument,
      rawMessage: expect.stringContaining("must be 16Mi to 1Ti"),
    });
    await expect(create("big")).rejects.toMatchObject({ code: Code.InvalidArgument });
    await expect(local.volumes.createVolume({ volumeName: "bad", poolRef: "none", size: "16Mi" })).rejects.toMatchObject({
      code: Code.FailedPrecondition,
    });
    const metadata = { name: "small", namespace };
    await local.client.create(SandboxVolume, { metadata, spec: { poolRef: "pool", size: "1Mi" } });
    expect((await phaseOf(local, "small", "Failed"))?.status?.message).toBe(
      'spec.size: Invalid value: "1Mi": must be 16Mi to 1Ti',
    );
    const patch = local.client.patch(SandboxVolume, metadata, { type: "merge", body: { spec: { size: "512Ki" } } });
    await expect(patch).rejects.toThrow(/spec\.size: .*size cannot be reduced/);
    await local.volumes.deleteVolume({ volumeName: "small" });
    const spec = { image: "host", poolRef: "pool" };
    for (const mountPath of ["/", "/etc/x", "/work", "/tmp", "/proc", "/data/../etc", "data", "/data/"]) {
      const volumes = [{ name: "data", mountPath }];
      await expect(
        local.client.create(Sandbox, { metadata: { name: "bad", namespace }, spec: { ...spec, volumes } }),
      ).rejects.toThrow("mountPath");
      await expect(local.fastPath.createSandbox({ name: "bad", ...spec, volumes })).rejects.toMatchObject({
        code: Code.InvalidArgument,
      });
    }
    await expect(
      local.fastPath.createSandbox({ name: "bad", ...spec, volumes: [{ name: "none", mountPath: "/data" }] }),
    ).rejects.toMatchObject({
      code: Code.FailedPrecondition,
      rawMessage: expect.stringContaining("SandboxVolume default/none not found"),
    });
  });

  // A machine without loop devices reports why it has none.
  const supported = canMountVolumes();
  it("are reported as failed, or are ready, as the agent can have them", async () => {
    const created = local.volumes.createVolume({ volumeName: "first", poolRef: "pool", size: "16Mi" });
    if (supported) expect(await created).toMatchObject({ phase: "Ready", size: "16Mi", usedBy: [] });
    else await expect(created).rejects.toMatchObject({ code: Code.ResourceExhausted });
    await local.volumes.deleteVolume({ volumeName: "first" });
    expect((await local.volumes.listVolumes({})).items).toEqual([]);
  });

  if (!supported) return;

  it("grow, and show both sizes, but do not shrink", async () => {
    const connection = { endpoint: local.url, token: local.token };
    const volume = await VolumeClient.create("grows", { ...connection, pool: "pool", size: "16Mi" });
    expect(await volume.resize("48Mi")).toMatchObject({ size: "48Mi", currentSize: "48Mi", phase: "Ready", message: "" });
    await expect(volume.resize("32Mi")).rejects.toMatchObject({
      code: "InvalidArgument",
      message: expect.stringContaining("size cannot be reduced") as string,
    });
    await expect(
      local.client.patch(SandboxVolume, { name: "grows", namespace }, { type: "merge", body: { spec: { size: "2Ti" } } }),
    ).rejects.toThrow("size cannot grow beyond 1Ti");
    expect(await volume.resize("49152Ki")).toMatchObject({ size: "49152Ki", phase: "Ready", message: "" });
    await expect(volume.resize("1Ti")).rejects.toMatchObject({
      code: "ResourceExhausted",
      message: expect.stringContaining("MiB available") as string,
    });
    expect((await VolumeClient.list(connection))[0]).toMatchObject({
      size: "1Ti",
      currentSize: expect.stringMatching(/^(48Mi|49152Ki|50331648)$/) as string,
      phase: "Ready",
    });
    await volume.delete();
  });

  it("outlive FAST and STRONG sandboxes, which run on their agent, and are deleted once they are unused", async () => {
    const connection = { endpoint: local.url, token: local.token };
    const volume = await VolumeClient.create("data", { ...connection, pool: "pool", size: "16Mi" });
    const [info] = await VolumeClient.list(connection);
    for (const mode of ["fast", "strong", "fast"] as const) {
      await using box = await SandboxClient.create({
        ...connection,
        image: "host",
        pool: "pool",
        mode,
        volumes: { "/data": "data" },
      });
      await box.exec(`echo ${mode} >>/data/modes`, { check: true });
      expect((await local.client.get(Sandbox, { namespace, name: box.name })).status?.assignedPod ?? info?.agent).toBe(
        info?.agent,
      );
      await watched(local.client, Sandbox, box.name, (each) => each?.status?.phase === "Running");
      expect((await VolumeClient.list(connection))[0]?.usedBy).toEqual([box.name]);
      await expect(volume.delete()).rejects.toMatchObject({ code: "FailedPrecondition" });
    }
    const shared = { "/data": { name: "data", readOnly: true } };
    await using one = await SandboxClient.create({ ...connection, image: "host", pool: "pool", volumes: shared });
    await using two = await SandboxClient.create({ ...connection, image: "host", pool: "pool", volumes: shared });
    for (const box of [one, two]) expect(await box.files.readText("/data/modes")).toBe("fast\nstrong\nfast\n");
    await expect(
      SandboxClient.create({ ...connection, image: "host", pool: "pool", volumes: { "/data": "data" }, whenFull: "reject" }),
    ).rejects.toMatchObject({ code: "PoolFull", message: expect.stringContaining("has another sandbox that uses them") });
    await one.delete();
    await two.delete();
    // Waits until both have stopped, then has the volume for itself.
    await using three = await SandboxClient.create({
      ...connection,
      image: "host",
      pool: "pool",
      volumes: { "/data": "data" },
    });
    await three.delete();
    await expect
      .poll(
        () =>
          volume.delete().then(
            () => "deleted",
            (error: Error) => error.message,
          ),
        { timeout: 60_000 },
      )
      .toBe("deleted");
    expect(await VolumeClient.list(connection)).toEqual([]);
  });

  it("keep their files when their agent is deleted, and wait for the agent of the same name", async () => {
    await local.volumes.createVolume({ volumeName: "kept", poolRef: "pool", size: "16Mi" });
    const volumes = [{ name: "kept", mountPath: "/data" }];
    await local.sandbox("writer", { volumes, command: ["sh", "-c", "echo kept >/data/file"] });
    await local.phase("writer", "Succeeded");
    const agent = (await phaseOf(local, "kept", "Ready"))?.status?.assignedPod ?? "";
    const before = await local.client.get(Pod, { namespace, name: agent });
    await local.client.delete(Pod, { namespace, name: agent });
    await watched(local.client, Pod, agent, (pod) => pod !== undefined && pod.metadata.uid !== before.metadata.uid);
    await local.sandbox("reader", { volumes, command: ["cat", "/data/file"] });
    const read = await local.phase("reader", "Succeeded");
    expect(read?.status?.assignedPod).toBe(agent);
    for (const name of ["writer", "reader"]) {
      await local.client.delete(Sandbox, { namespace, name });
      await local.phase(name, undefined);
    }
    await local.volumes.deleteVolume({ volumeName: "kept" });
  });

  it("are not deleted while a sandbox uses them, whatever deletes them", async () => {
    await local.volumes.createVolume({ volumeName: "used", poolRef: "pool", size: "16Mi" });
    await local.sandbox("user", { volumes: [{ name: "used", mountPath: "/data" }] });
    await local.phase("user", "Running");
    await local.client.delete(SandboxVolume, { namespace, name: "used" });
    expect((await phaseOf(local, "used", "Deleting"))?.status?.message).toBe("in use by sandbox user");
    await local.restart();
    await local.client.delete(Sandbox, { namespace, name: "user" });
    await watched(local.client, SandboxVolume, "used", (each) => each === undefined);
  });

  it("are deleted with their files when their pool no longer exists", async () => {
    await local.volumes.createVolume({ volumeName: "left", poolRef: "pool", size: "16Mi" });
    expect(readdirSync(join(local.dataDir, "volumes"))).toHaveLength(1);
    await local.client.delete(SandboxPool, { namespace, name: "pool" });
    await watched(local.client, SandboxPool, "pool", (each) => each === undefined);
    await local.volumes.deleteVolume({ volumeName: "left" });
    expect(readdirSync(join(local.dataDir, "volumes"))).toEqual([]);
  });
});
