import { create } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { createDeferred } from "@keelson/api-machinery/deferred";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { CreateRequestSchema, WhenFull } from "@keelson/sandbox/protocol";
import { expect, it } from "vitest";
import { SandboxPool } from "../../api/sandbox-pool.ts";
import { SandboxCreator, type SandboxCreatorOptions } from "./sandbox-creator.ts";

/** A creator whose fast path has a deleted sandbox of the name until `undone` resolves. */
function creatorWith(
  undone: Promise<void>,
  more: Partial<SandboxCreatorOptions> = {},
): { readonly creator: SandboxCreator; readonly writes: string[] } {
  const writes: string[] = [];
  const options = {
    ...{ onRejected: () => {}, ...more },
    cache: { list: () => [], get: (kind: unknown) => (kind === SandboxPool ? { spec: {} } : undefined) },
    client: {
      create: (_: unknown, { metadata }: { metadata: { name: string } }) => {
        writes.push(metadata.name);
        return Promise.reject(new Error("ends the test"));
      },
    },
    fast: { whenWritten: () => undone, create: () => Promise.resolve({ kind: "full", message: "no free slot" }) },
    clock: createVirtualClock(),
    newId: () => "0".repeat(32),
    strongTimeoutMs: 60_000,
  } as unknown as SandboxCreatorOptions;
  return { creator: new SandboxCreator(options), writes };
}

const request = create(CreateRequestSchema, { name: "one", image: "host", poolRef: "pool" });

it("writes the object of a STRONG create once a deleted sandbox of its name is undone", async () => {
  const undone = createDeferred<void>();
  const { creator, writes } = creatorWith(undone.promise);
  const done = creator.create(request, false, { signal: new AbortController().signal }).catch(() => {});
  await new Promise((resolve) => setImmediate(resolve));
  expect(writes).toEqual([]);
  undone.resolve();
  await done;
  expect(writes).toEqual(["one"]);
});

it("writes nothing if the caller stopped waiting for that", async () => {
  const undone = createDeferred<void>();
  const { creator, writes } = creatorWith(undone.promise);
  const caller = new AbortController();
  const done = creator.create(request, false, { signal: caller.signal });
  caller.abort();
  undone.resolve();
  await expect(done).rejects.toMatchObject({ code: Code.DeadlineExceeded });
  expect(writes).toEqual([]);
});

it("reports a create that is rejected because its pool is full, and writes nothing", async () => {
  const rejected: unknown[] = [];
  const { creator, writes } = creatorWith(Promise.resolve(), { onRejected: (pool) => rejected.push(pool) });
  const done = creator.create({ ...request, whenFull: WhenFull.REJECT }, true, { signal: new AbortController().signal });
  await expect(done).rejects.toMatchObject({ code: Code.ResourceExhausted });
  expect([rejected, writes]).toEqual([[{ namespace: "default", name: "pool" }], []]);
});
