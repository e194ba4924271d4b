import { fileURLToPath } from "node:url";
import {
  credentials,
  type GrpcObject,
  loadPackageDefinition,
  Metadata,
  type ServiceClientConstructor,
  type ServiceError,
  status,
} from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { Code, ConnectError } from "@connectrpc/connect";
import { watched } from "@keelson/client/testing";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { ConsistencyMode, WhenFull } from "@keelson/sandbox/protocol";
import { Sandbox } from "../api/sandbox.ts";
import { type LocalSandboxes, namespace, startLocalSandboxes } from "../testing/local-sandboxes.ts";

/*
 * The fast path as the original's clients see it: the original's messages, by another implementation of gRPC than the server's.
 */

type Message = Record<string, unknown>;
/** A call and how it ended: the answer, or the error's code and words. */
type Call = (method: string, request: Message, metadata?: Metadata, deadlineMs?: number) => Promise<Message>;

const file = fileURLToPath(new URL("testdata/original.proto", import.meta.url));
let local: LocalSandboxes;
let call: Call;
let close: () => void;

beforeAll(async () => {
  local = await startLocalSandboxes();
  await local.pool({ poolMin: 1, poolMax: 1 }, 3);
  const loaded = loadPackageDefinition(loadSync(file, { keepCase: true, longs: Number, enums: String, defaults: true }));
  const Service = ((loaded.fastpath as GrpcObject).v1 as GrpcObject).FastPathService as ServiceClientConstructor;
  const client = new Service(new URL(local.url).host, credentials.createInsecure());
  close = () => client.close();
  const authorized = new Metadata();
  authorized.set("authorization", `Bearer ${local.token}`);
  call = (method, request, metadata = authorized, deadlineMs = 60_000) =>
    new Promise((resolve, reject) => {
      const options = { deadline: Date.now() + deadlineMs };
      client[method]?.call(client, request, metadata, options, (error: ServiceError | null, answer: Message) => {
        if (error === null) return resolve(answer);
        // This client leaves some of what gRPC encodes in a status message as it came.
        reject(Object.assign(error, { details: decodeURIComponent(error.details) }));
      });
    });
});

afterEach(async () => {
  for (const { metadata } of (await local.client.list(Sandbox, { namespace })).items) {
    await call("DeleteSandbox", { sandbox_name: metadata.name }).catch(() => {});
    await local.phase(metadata.name ?? "", undefined);
  }
});

afterAll(async () => {
  close();
  await local.stop();
});

const create = (change: Message = {}): Promise<Message> =>
  call("CreateSandbox", { name: "one", image: "host", pool_ref: "pool", command: ["sleep"], args: ["600"], ...change });

describe("a client of the original", () => {
  it.each(["FAST", "STRONG"])("creates with %s, gets, lists and deletes a sandbox", async (consistency_mode) => {
    const created = await create({ consistency_mode, exposed_ports: [18090, 18091], envs: { A: "b" }, working_dir: "/tmp" });
    expect(created).toEqual({
      sandbox_id: expect.stringMatching(consistency_mode === "FAST" ? /^[0-9a-f]{32}$/ : /^[0-9a-f-]{36}$/),
      agent_pod: "pool-agent-0",
      endpoints: [expect.stringMatching(/^127\.[\d.]+:18090$/), expect.stringMatching(/:18091$/)],
      sandbox_name: "one",
    });
    const sandbox = await local.phase("one", "Running");
    expect(sandbox?.spec).toMatchObject({
      envs: [{ name: "A", value: "b" }],
      workingDir: "/tmp",
      exposedPorts: [18090, 18091],
    });
    const info = {
      sandbox_id: created.sandbox_id,
      phase: "Running",
      agent_pod: "pool-agent-0",
      endpoints: created.endpoints,
      created_at: Date.parse(sandbox?.metadata.creationTimestamp ?? "") / 1000,
      image: "host",
      pool_ref: "pool",
      sandbox_name: "one",
    };
    expect(await call("GetSandbox", { sandbox_name: "one", namespace })).toEqual(info);
    expect(await call("ListSandboxes", { namespace })).toEqual({ items: [info] });
    expect(await call("ListSandboxes", { namespace: "elsewhere" })).toEqual({ items: [] });
    expect(await call("DeleteSandbox", { sandbox_name: "one" })).toEqual({ success: true });
    await local.phase("one", undefined);
    await expect(call("GetSandbox", { sandbox_name: "one" })).rejects.toMatchObject({ code: status.NOT_FOUND });
  });

  it("defaults to FAST, namespace default and a generated name", async () => {
    const created = await create({ name: "" });
    expect(created.sandbox_name).toMatch(/^sb-[0-9a-f]{16}$/);
    const sandbox = await local.phase(String(created.sandbox_name), "Running");
    expect(sandbox?.metadata.labels).toMatchObject({ "sandbox.fast.io/created-by": "fastpath-fast" });
  });

  it("updates one setting per call, and labels", async () => {
    await create();
    await local.phase("one", "Running");
    const update = (change: Message): Promise<Message> => call("UpdateSandbox", { sandbox_name: "one", ...change });
    const later = Math.floor(Date.now() / 1000) + 3600;
    expect(await update({ expire_time_seconds: later, labels: { a: "b" } })).toMatchObject({
      success: true,
      sandbox: { sandbox_name: "one" },
    });
    await update({ failure_policy: "AUTO_RECREATE" });
    await update({ recovery_timeout_seconds: 7 });
    const { spec, metadata } = await local.client.get(Sandbox, { namespace, name: "one" });
    expect(spec).toMatchObject({ failurePolicy: "AutoRecreate", recoveryTimeoutSeconds: 7 });
    expect([Date.parse(spec.expireTime ?? "") / 1000, metadata.labels?.a]).toEqual([later, "b"]);
    await update({ expire_time_seconds: 0 });
    expect((await local.client.get(Sandbox, { namespace, name: "one" })).spec.expireTime).toBeUndefined();
    const reset_revision = new Date().toISOString().replace("Z", "123456Z");
    expect(await update({ reset_revision })).toMatchObject({ success: true });
    await watched(local.client, Sandbox, "one", (each) => each?.status?.acceptedResetRevision === reset_revision);
    await local.phase("one", "Running");
  });

  it.each([
    ["an unknown sandbox", { sandbox_name: "no-such", labels: { a: "b" } }, /no-such/],
    ["nothing", { sandbox_name: "one" }, /nothing to update/],
    ["a bad time", { sandbox_name: "one", reset_revision: "soon" }, /^reset_revision: "soon"/],
    ["a negative time", { sandbox_name: "one", expire_time_seconds: -1 }, /^expire_time_seconds:/],
    ["no timeout", { sandbox_name: "one", recovery_timeout_seconds: -5 }, /recoveryTimeoutSeconds/],
  ] satisfies [string, Message, RegExp][])(
    "reports an update of %s in the answer, not as an error",
    async (_, request, message) => {
      await create();
      await local.phase("one", "Running");
      expect(await call("UpdateSandbox", request)).toMatchObject({ success: false, message: expect.stringMatching(message) });
    },
  );

  it.each([
    [
      "a variable above the kernel's limit",
      { envs: { BIG: "x".repeat(200_000) } },
      status.INVALID_ARGUMENT,
      /^env BIG: 200005 bytes exceed the kernel's limit of 131072 bytes/,
    ],
    ["no image", { image: "" }, status.INVALID_ARGUMENT, /^image: is required/],
    ["no pool", { pool_ref: "" }, status.INVALID_ARGUMENT, /^pool_ref: is required/],
    [
      "a pool that is not there",
      { pool_ref: "nope" },
      status.FAILED_PRECONDITION,
      /^pool_ref: SandboxPool default\/nope not found/,
    ],
    ["a bad name", { name: "No Such" }, status.INVALID_ARGUMENT, /^name: /],
    ["port 0", { exposed_ports: [0] }, status.INVALID_ARGUMENT, /^exposed_ports: 0 must be/],
    ["port 65536", { exposed_ports: [65536] }, status.INVALID_ARGUMENT, /^exposed_ports: 65536/],
    ["the agent's port", { exposed_ports: [5758] }, status.INVALID_ARGUMENT, /^exposed_ports: 5758/],
    ["a port twice", { exposed_ports: [80, 80] }, status.INVALID_ARGUMENT, /^exposed_ports: 80 is listed twice/],
    ["a bad variable", { envs: { "A=B": "c" } }, status.INVALID_ARGUMENT, /^envs: "A=B"/],
    ["a relative directory", { working_dir: "tmp" }, status.INVALID_ARGUMENT, /^working_dir: /],
    [
      "an image that is not there",
      { image: "no/such:1" },
      status.FAILED_PRECONDITION,
      /image no\/such:1 not found on this machine/,
    ],
    ["a program that is not there", { command: ["no-such-program"] }, status.FAILED_PRECONDITION, /no-such-program/],
  ] satisfies [string, Message, number, RegExp][])(
    "is refused for %s, and nothing is left",
    async (_, change, code, message) => {
      await expect(create(change)).rejects.toMatchObject({ code, details: expect.stringMatching(message) });
      expect((await call("ListSandboxes", { namespace })).items).toEqual([]);
    },
  );

  it("reports an existing name, a full pool and a missing sandbox", async () => {
    await Promise.all(["one", "two", "three"].map((name) => create({ name })));
    await expect(create()).rejects.toMatchObject({
      code: status.ALREADY_EXISTS,
      details: expect.stringContaining("default/one"),
    });
    const waiting = call("CreateSandbox", { name: "four", image: "host", pool_ref: "pool" }, undefined, 1500);
    await expect(waiting).rejects.toMatchObject({ code: status.DEADLINE_EXCEEDED });
    // It is withdrawn, so that it does not run when a slot becomes free.
    await local.phase("four", undefined);
    await call("DeleteSandbox", { sandbox_name: "one" });
    await local.phase("one", undefined);
    await expect(call("GetSandbox", { sandbox_name: "four" })).rejects.toMatchObject({ code: status.NOT_FOUND });
    await expect(call("DeleteSandbox", { sandbox_name: "no-such" })).rejects.toMatchObject({ code: status.NOT_FOUND });
  });

  it.each([
    ["FAST", "REJECT", ConsistencyMode.FAST, WhenFull.REJECT],
    ["STRONG", "REJECT", ConsistencyMode.STRONG, WhenFull.REJECT],
    ["FAST", "BURST without burst capacity", ConsistencyMode.FAST, WhenFull.BURST],
  ])("with a full pool rejects a %s create with %s, with a retry hint, and leaves nothing", async (_, __, mode, whenFull) => {
    const names = ["one", "two", "three"];
    await Promise.all(names.map((name) => create({ name })));
    // The objects of FAST creates are written after the answer; the clean-up lists them.
    await Promise.all(names.map((name) => local.phase(name, "Running")));
    const request = { name: "four", image: "host", poolRef: "pool", consistencyMode: mode, whenFull };
    const rejected = await local.fastPath.createSandbox(request).catch((error: unknown) => ConnectError.from(error));
    expect(rejected).toMatchObject({
      code: Code.ResourceExhausted,
      rawMessage: expect.stringMatching(/no free slot.*retry in 5 s$/),
    });
    expect((rejected as ConnectError).metadata.get("grpc-retry-pushback-ms")).toBe("5000");
    await local.phase("four", undefined);
  });

  it("requires the token as call metadata", async () => {
    await expect(call("ListSandboxes", {}, new Metadata())).rejects.toMatchObject({ code: status.UNAUTHENTICATED });
    const wrong = new Metadata();
    wrong.set("authorization", "Bearer guessed");
    await expect(call("CreateSandbox", {}, wrong)).rejects.toMatchObject({ code: status.UNAUTHENTICATED });
  });
});
