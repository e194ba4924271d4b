import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { statusError } from "@keelson/api-machinery";
import { systemClock } from "@keelson/api-machinery/time";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { silentLogger } from "@keelson/controller";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { AgentClient } from "../../fleet/agent-client.ts";
import type { AgentSandbox, AgentStatus, CreateAnswer } from "../../protocol/protocol.ts";
import { requestIdAnnotation } from "../../api/names.ts";
import { Sandbox } from "../../api/sandbox.ts";
import { Registry } from "../../registry/registry.ts";
import { watched } from "@keelson/client/testing";
import { FastCreator } from "./fast-creator.ts";
import type { FastOutcome } from "./fast-request.ts";
import { type Intent, IntentLog } from "./intent-log.ts";

let environment: TestEnvironment;
let client: Client;
let dir: string;
/** What runs on the one agent: it lives on when the operator dies. */
let running: Map<string, AgentSandbox>;
let fenced: Set<string>;
const logs: IntentLog[] = [];
let ids = 0;
const never = new Promise<never>(() => {});
const request = { namespace: "default", name: "one", spec: { image: "host", poolRef: "pool" } as Sandbox["spec"], labels: {} };

const agent = (change: Partial<AgentClient> = {}): AgentClient => ({
  create: async (sandbox): Promise<CreateAnswer> => {
    if (fenced.has(sandbox.sandboxId)) return { success: false, rejected: true, sandboxId: sandbox.sandboxId };
    running.set(sandbox.sandboxId, sandbox);
    return { success: true, sandboxId: sandbox.sandboxId, createdAt: 1 };
  },
  delete: async (id) => {
    fenced.add(id);
    running.delete(id);
  },
  expire: () => Promise.resolve(),
  changeVolume: () => Promise.resolve(),
  files: () => never,
  watchFiles: () => never,
  pause: () => Promise.resolve(),
  resume: () => Promise.resolve(),
  status: () => never,
  usage: () => never,
  watch: () => ({ [Symbol.asyncIterator]: () => ({ next: () => never }) }),
  processes: () => never,
  processOutput: () => never,
  logs: () => never,
  exec: () => never,
  connectPort: () => never,
  ...change,
});

const status = (): AgentStatus => ({
  agentId: "a",
  nodeName: "n",
  capacity: 1,
  allocated: running.size,
  images: [],
  sandboxStatuses: [...running.values()].map((each) => ({
    sandboxId: each.sandboxId,
    claimUid: "",
    claimName: each.claimName,
    namespace: each.namespace,
    phase: "running" as const,
    message: "",
    createdAt: 1,
    ports: [],
  })),
});

async function open(
  change: { agent?: AgentClient; client?: Client; podExists?: boolean } = {},
): Promise<{ fast: FastCreator; registry: Registry; agent: AgentClient }> {
  const registry = new Registry();
  const intents = await IntentLog.open(join(dir, "intents"));
  logs.push(intents);
  const one = change.agent ?? agent();
  const fast = new FastCreator({
    client: change.client ?? client,
    registry,
    log: silentLogger,
    intents,
    agentClient: () => (change.podExists === false ? undefined : one),
    podExists: () => change.podExists ?? true,
    clock: systemClock,
    newId: () => String(++ids).padStart(32, "0"),
  });
  registry.register({
    name: "a",
    namespace: "default",
    pool: "pool",
    node: "n",
    address: "127.0.0.1",
    capacity: 1,
    images: [],
    isReady: true,
  });
  return { fast, registry, agent: one };
}

const objects = async (): Promise<readonly string[]> =>
  (await client.list(Sandbox, { namespace: "default" })).items.map((each) => each.metadata.name ?? "");

/** Objects that nothing deletes. The controller would remove the finalizer of the others. */
const remaining = async (): Promise<readonly string[]> =>
  (await client.list(Sandbox, { namespace: "default" })).items.flatMap(({ metadata }) =>
    metadata.deletionTimestamp === undefined ? [metadata.name ?? ""] : [],
  );

beforeEach(async () => {
  environment = await startTestEnvironment({ crds: [Sandbox.crd] });
  client = createClient({ transport: environment.transport(), fieldManager: "test" });
  dir = mkdtempSync(join(tmpdir(), "fast-creator-"));
  running = new Map();
  fenced = new Set();
});

afterEach(async () => {
  for (const log of logs.splice(0)) await log.close();
  await environment.stop();
  rmSync(dir, { recursive: true, force: true });
});

/** The client with another create. */
const clientWith = (create: (...parameters: Parameters<Client["create"]>) => Promise<unknown>): Client =>
  ({ get: client.get.bind(client), delete: client.delete.bind(client), create }) as unknown as Client;

const idOf = (outcome: FastOutcome): string => (outcome.kind === "created" ? outcome.sandboxId : "");

/** A new process finds what the last one left. */
async function recover(): Promise<{ fast: FastCreator; registry: Registry }> {
  const next = await open();
  next.fast.recover("default", "a", status());
  return next;
}

async function settled(fast: FastCreator): Promise<void> {
  while (await fast.delete("default", "no-such")) await Promise.resolve();
  await new Promise((resolve) => setImmediate(resolve));
}

describe("FAST", () => {
  it("runs the sandbox, then writes its object", async () => {
    const { fast } = await open();
    const outcome = await fast.create(request);
    expect(outcome).toMatchObject({ kind: "created", agent: { name: "a" } });
    await watched(client, Sandbox, "one", (each) => each !== undefined);
    expect(running.size).toBe(1);
  });

  it("killed before the agent is called: leaves neither sandbox nor object, frees the slot, and rejects a late request", async () => {
    const first = await open({ agent: agent({ create: () => never }) });
    void first.fast.create(request);
    while (first.fast.isPending(String(ids).padStart(32, "0")) === false) await new Promise((resolve) => setImmediate(resolve));
    await logs[0]?.close();
    logs.length = 0;
    const id = String(ids).padStart(32, "0");
    const { fast, registry } = await recover();
    while (fast.isPending(id)) await new Promise((resolve) => setImmediate(resolve));
    expect(await objects()).toEqual([]);
    expect(registry.agentOf("default/one")).toBeUndefined();
    expect(
      (await agent().create({ sandboxId: id, claimUid: "", claimName: "one", namespace: "default", image: "host" })).rejected,
    ).toBe(true);
  });

  it("killed after the agent started it: writes the object in the next process", async () => {
    const first = await open({
      agent: agent({
        create: async (sandbox) => {
          running.set(sandbox.sandboxId, sandbox);
          return never;
        },
      }),
    });
    void first.fast.create(request);
    while (running.size === 0) await new Promise((resolve) => setImmediate(resolve));
    const { registry } = await recover();
    const object = await watched(client, Sandbox, "one", (each) => each !== undefined);
    expect(JSON.stringify(object?.metadata.annotations)).toContain([...running.keys()][0]);
    expect(registry.agentOf("default/one")).toBe("a");
  });

  it("killed, and its agent deleted: writes no object and frees the name", async () => {
    const first = await open({ agent: agent({ create: () => never }) });
    void first.fast.create(request);
    const id = String(ids).padStart(32, "0");
    while (!first.fast.isPending(id)) await new Promise((resolve) => setImmediate(resolve));
    await logs[0]?.close();
    logs.length = 0;
    const { fast, registry } = await open({ podExists: false });
    expect(fast.isPending(id)).toBe(true);
    fast.settleMissing();
    while (fast.isPending(id)) await new Promise((resolve) => setImmediate(resolve));
    expect([await objects(), registry.agentOf("default/one")]).toEqual([[], undefined]);
  });

  it("killed around the API write: leaves exactly one object", async () => {
    const deaf = clientWith(() => never);
    const first = await open({ client: deaf });
    expect((await first.fast.create(request)).kind).toBe("created");
    await recover();
    await watched(client, Sandbox, "one", (each) => each !== undefined);
    await settled((await recover()).fast);
    expect(await objects()).toEqual(["one"]);
    expect(running.size).toBe(1);
  });

  it.each(["gone", "there, without it"])(
    "killed after the object was created, with its agent %s: the object stays",
    async (agentIs) => {
      const first = await open();
      const outcome = await first.fast.create(request);
      await watched(client, Sandbox, "one", (each) => each !== undefined);
      // Killed: its log is not closed, so what is finished was not written yet.
      running.clear();
      const id = outcome.kind === "created" ? outcome.sandboxId : "";
      const { fast } = agentIs === "gone" ? await open({ podExists: false }) : await recover();
      fast.settleMissing();
      while (fast.isPending(id)) await new Promise((resolve) => setImmediate(resolve));
      const { items } = await client.list(Sandbox, { namespace: "default" });
      expect(items.map(({ metadata }) => [metadata.name, metadata.deletionTimestamp])).toEqual([["one", undefined]]);
    },
  );

  it("stops a sandbox that the API rejects, and frees its slot (C1, C2)", async () => {
    await client.create(Sandbox, {
      metadata: { name: "one", namespace: "default" },
      spec: { image: "other", poolRef: "pool" } as Sandbox["spec"],
    });
    const { fast, registry } = await open();
    const outcome = await fast.create(request);
    const id = outcome.kind === "created" ? outcome.sandboxId : "";
    while (fast.isPending(id)) await new Promise((resolve) => setImmediate(resolve));
    expect(running.size).toBe(0);
    expect(registry.agentOf("default/one")).toBeUndefined();
    expect((await client.get(Sandbox, { namespace: "default", name: "one" })).spec.image).toBe("other");
  });

  it("never writes a sandbox that was deleted before its object (C3), even if an acknowledgement was lost", async () => {
    let release: () => void = () => {};
    const gate = new Promise<void>((resolve) => (release = resolve));
    const slow = clientWith(async (...parameters: Parameters<Client["create"]>) => {
      await gate;
      return client.create(...parameters);
    });
    const { fast } = await open({ client: slow });
    const id = idOf(await fast.create(request));
    // Does not wait for the object.
    expect(await fast.delete("default", "one")).toBe(true);
    expect([fast.pendingOf("default", "one"), fast.isPending(id)]).toEqual([undefined, true]);
    release();
    while (fast.isPending(id)) await new Promise((resolve) => setImmediate(resolve));
    expect(running.size).toBe(0);
    // The controller takes the finalizer off; here there is none, so a deletion shows as its mark.
    for (const each of (await client.list(Sandbox, { namespace: "default" })).items)
      expect(each.metadata.deletionTimestamp).toBeDefined();
  });

  it.each([
    ["not written", false],
    ["written without an acknowledgement", true],
  ])("killed after a delete was answered, with the object %s: leaves neither sandbox nor object", async (_, isWritten) => {
    const slow = clientWith(async (...parameters: Parameters<Client["create"]>) => {
      if (isWritten) await client.create(...parameters);
      return never;
    });
    const first = await open({ client: slow });
    const id = idOf(await first.fast.create(request));
    if (isWritten) await watched(client, Sandbox, "one", (each) => each !== undefined);
    expect(await first.fast.delete("default", "one")).toBe(true);
    const { fast, registry } = await recover();
    while (fast.isPending(id)) await new Promise((resolve) => setImmediate(resolve));
    expect([await remaining(), running.size, registry.agentOf("default/one")]).toEqual([[], 0, undefined]);
  });

  it("deletes an object whose write was not acknowledged, even if the delete comes while that is found out", async () => {
    let fast: FastCreator | undefined;
    let isDeleted = false;
    const rival = {
      ...clientWith(async (...parameters: Parameters<Client["create"]>) => {
        const isFirst = (await objects()).length === 0;
        await client.create(...parameters);
        if (isFirst) throw new Error("the answer was lost");
      }),
      get: async (...parameters: Parameters<Client["get"]>) => {
        const found = await client.get(...parameters);
        if (!isDeleted) isDeleted = (await fast?.delete("default", "one")) ?? false;
        return found;
      },
    } as unknown as Client;
    ({ fast } = await open({ client: rival }));
    const id = idOf(await fast.create(request));
    while (fast.isPending(id)) await new Promise((resolve) => setImmediate(resolve));
    expect([isDeleted, await remaining(), running.size]).toEqual([true, [], 0]);
  });

  it("deletes an object that was written without a response, if the API rejects the repeated write after a delete", async () => {
    let writes = 0;
    let release: () => void = () => {};
    const gate = new Promise<void>((resolve) => (release = resolve));
    const rival = clientWith(async (...parameters: Parameters<Client["create"]>) => {
      writes += 1;
      if (writes === 1) {
        await client.create(...parameters);
        throw new Error("the answer was lost");
      }
      await gate;
      return client.create(...parameters);
    });
    const { fast, registry } = await open({ client: rival });
    const id = idOf(await fast.create(request));
    while (writes < 2) await new Promise((resolve) => setImmediate(resolve));
    expect(await fast.delete("default", "one")).toBe(true);
    release();
    while (fast.isPending(id)) await new Promise((resolve) => setImmediate(resolve));
    expect([await remaining(), running.size, registry.agentOf("default/one")]).toEqual([[], 0, undefined]);
  });

  it.each(["Forbidden", "Unauthorized"] as const)("retries a delete that the API rejects as %s", async (reason) => {
    let writes = 0;
    let rejections = 0;
    const flaky = {
      ...clientWith(async (...parameters: Parameters<Client["create"]>) => {
        writes += 1;
        await client.create(...parameters);
        return never;
      }),
      get: async (...parameters: Parameters<Client["get"]>) => {
        rejections += 1;
        if (rejections <= 2) throw statusError(reason, "not now");
        return client.get(...parameters);
      },
    } as unknown as Client;
    const first = await open({ client: flaky });
    const id = idOf(await first.fast.create(request));
    while (writes < 1) await new Promise((resolve) => setImmediate(resolve));
    await watched(client, Sandbox, "one", (each) => each !== undefined);
    await first.fast.delete("default", "one");
    const { fast } = await open({ client: flaky });
    fast.recover("default", "a", status());
    while (fast.isPending(id)) await new Promise((resolve) => setImmediate(resolve));
    expect([await remaining(), running.size, rejections > 2]).toEqual([[], 0, true]);
  });

  it("keeps a running sandbox while the API does not say whether its object was written", async () => {
    let writes = 0;
    let reads = 0;
    const rival = {
      ...clientWith(async (...parameters: Parameters<Client["create"]>) => {
        writes += 1;
        await client.create(...parameters);
        if (writes === 1) throw new Error("the answer was lost");
      }),
      get: async (...parameters: Parameters<Client["get"]>) => {
        reads += 1;
        if (reads === 1) throw new Error("no answer");
        return client.get(...parameters);
      },
    } as unknown as Client;
    const { fast } = await open({ client: rival });
    const id = idOf(await fast.create(request));
    while (fast.isPending(id)) await new Promise((resolve) => setImmediate(resolve));
    expect([await remaining(), [...running.keys()]]).toEqual([["one"], [id]]);
  });

  it("does not delete an object of the same name that replaced its own", async () => {
    let replaced = false;
    const rival = {
      ...clientWith(async (...parameters: Parameters<Client["create"]>) => {
        await client.create(...parameters);
        return never;
      }),
      get: async (...parameters: Parameters<Client["get"]>) => {
        const found = await client.get(...parameters);
        if (!replaced) {
          replaced = true;
          const key = { namespace: "default", name: "one" };
          await client.patch(Sandbox, key, { type: "merge", body: { metadata: { finalizers: null } } });
          await client.delete(Sandbox, key);
          await client.create(Sandbox, { metadata: key, spec: request.spec });
        }
        return found;
      },
    } as unknown as Client;
    const first = await open({ client: rival });
    const id = idOf(await first.fast.create(request));
    await watched(client, Sandbox, "one", (each) => each !== undefined);
    await first.fast.delete("default", "one");
    const { fast } = await open({ client: rival });
    fast.recover("default", "a", status());
    while (fast.isPending(id)) await new Promise((resolve) => setImmediate(resolve));
    expect([replaced, await remaining(), running.size]).toEqual([true, ["one"], 0]);
  });

  it.each([
    ["before", 0],
    ["after", 1],
  ])("recovers a sandbox next to a deleted one of the same name that the log has %s it", async (_, position) => {
    const intents = await IntentLog.open(join(dir, "intents"));
    const intent = (sandboxId: string) => ({
      ...{ sandboxId, agent: "a", node: "n", at: 1 },
      ...request,
    });
    const both: Intent[] = [intent("alive")];
    both.splice(position, 0, { ...intent("deleted"), isDeleted: true });
    for (const each of both) await intents.write(each);
    await intents.close();
    for (const sandboxId of ["alive", "deleted"])
      running.set(sandboxId, { ...{ sandboxId, claimUid: "", claimName: "one", namespace: "default", image: "host" } });
    const { fast, registry } = await recover();
    while (fast.isPending("alive") || fast.isPending("deleted")) await new Promise((resolve) => setImmediate(resolve));
    expect([await remaining(), [...running.keys()], registry.agentOf("default/one")]).toEqual([["one"], ["alive"], "a"]);
    const { items } = await client.list(Sandbox, { namespace: "default" });
    expect(JSON.stringify(items[0]?.metadata.annotations)).toContain("alive");
  });

  it("tells a waiting create of the same name when a deleted sandbox of an earlier process is undone, not before", async () => {
    const first = await open({ client: clientWith(() => never) });
    await first.fast.create(request);
    await first.fast.delete("default", "one");
    const { fast, registry } = await open();
    const seen: string[] = [];
    const waiting = fast.whenWritten("default", "one").then(() => seen.push("written"));
    await new Promise((resolve) => setImmediate(resolve));
    expect(seen).toEqual([]);
    fast.recover("default", "a", status());
    await waiting;
    expect([running.size, registry.agentOf("default/one")]).toEqual([0, undefined]);
  });

  it("does not free the slot that an object of the same name got in the meantime", async () => {
    let release: () => void = () => {};
    const gate = new Promise<void>((resolve) => (release = resolve));
    const { fast, registry } = await open({
      client: clientWith(() => Promise.reject(new Error("no answer"))),
      agent: agent({
        delete: async (id) => {
          await gate;
          running.delete(id);
        },
      }),
    });
    await fast.create(request);
    await fast.delete("default", "one");
    // As the controller places an object that was created next to the fast path.
    const placed = registry.allocate({ key: "default/one", namespace: "default", pool: "pool", image: "host", ports: [] });
    expect(placed).toHaveProperty("agent.name", "a");
    release();
    await expect.poll(() => running.size).toBe(0);
    expect(registry.agentOf("default/one")).toBe("a");
  });

  it("starts the next sandbox of a name, including of the same request, once the deleted one has stopped", async () => {
    const { fast } = await open();
    const mine = { ...request, requestId: "mine" };
    const first = idOf(await fast.create(mine));
    await fast.delete("default", "one");
    const second = idOf(await fast.create(mine));
    expect([...running.keys()]).toEqual([second]);
    expect(second).not.toBe(first);
  });

  it("does not try another agent for a sandbox that was deleted while the first one rejected it", async () => {
    const creator: { fast?: FastCreator } = {};
    let tries = 0;
    const { fast, registry } = await open({
      agent: agent({
        create: async ({ sandboxId }) => {
          tries += 1;
          await creator.fast?.delete("default", "one");
          return { success: false, rejected: true, sandboxId };
        },
      }),
    });
    creator.fast = fast;
    registry.register({
      ...{ name: "b", namespace: "default", pool: "pool", node: "n", address: "127.0.0.1" },
      ...{ capacity: 1, images: [], isReady: true },
    });
    expect((await fast.create(request)).kind).toBe("failed");
    expect([tries, registry.agentOf("default/one")]).toEqual([1, undefined]);
  });

  it("gives a repeated request the outcome of the first, and another request none", async () => {
    const { fast } = await open({ client: clientWith(() => never) });
    const mine = { ...request, requestId: "mine" };
    const [one, same, other] = await Promise.all([
      fast.create(mine),
      fast.create(mine),
      fast.create({ ...request, requestId: "other" }),
    ]);
    expect([one.kind, same, other.kind]).toEqual(["created", one, "exists"]);
    // Its answer is out, and the API does not know of it yet.
    expect(await fast.create(mine)).toEqual(one);
    expect(running.size).toBe(1);
  });

  it("records the request id in the object, so that the next process recognizes the request", async () => {
    const first = await open({ client: clientWith(() => never) });
    expect((await first.fast.create({ ...request, requestId: "mine" })).kind).toBe("created");
    await recover();
    const object = await watched(client, Sandbox, "one", (each) => each !== undefined);
    expect(object?.metadata.annotations?.[requestIdAnnotation]).toBe("mine");
  });

  it("rejects a second sandbox of the same name, and reports a full pool", async () => {
    const { fast } = await open();
    const outcomes = await Promise.all([fast.create(request), fast.create(request), fast.create({ ...request, name: "two" })]);
    expect(outcomes.map((each) => each.kind)).toEqual(["created", "exists", "full"]);
    expect(running.size).toBe(1);
  });
});
