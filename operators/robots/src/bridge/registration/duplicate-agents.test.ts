import { createVirtualClock } from "@keelson/api-machinery/testing";
import type { Transport } from "@keelson/api-machinery/transport";
import { createClient } from "@keelson/client";
import { silentLogger } from "@keelson/controller";
import { expect, it } from "vitest";
import { heldAnnotation } from "../../api/names.ts";
import { robotOf } from "../../testing/objects.ts";
import { DuplicateAgents } from "./duplicate-agents.ts";

const robot = robotOf("r", {
  status: { identity: { keySha256: "k", publicKey: "p", certificate: "c", expires: "2027-01-01T00:00:00Z" } },
});

function setUp() {
  const clock = createVirtualClock();
  const bodies: unknown[] = [];
  const transport: Transport = {
    request: async ({ body }) => {
      bodies.push(body);
      return { status: 200, headers: {}, body: robot };
    },
    watch: () => Promise.reject(new Error("not supported")),
    close: async () => {},
  };
  const queued: (() => Promise<void>)[] = [];
  let isFull = false;
  const duplicates = new DuplicateAgents({
    ...{ clock, namespace: "robots", log: silentLogger, fieldManager: "test" },
    client: createClient({ transport, fieldManager: "test" }),
    events: { event: () => {} },
    push: (_, run) => !isFull && queued.push(run) > 0,
  });
  const register = (instanceId: string) => duplicates.check(robot, { robotId: "r", token: "", instanceId });
  return { bodies, queued, register, fill: (full: boolean) => (isFull = full) };
}

it("queues at most one hold of a robot whose clones keep registering", async () => {
  const { bodies, queued, register } = setUp();
  for (let n = 0; n < 100; n++) register(n % 2 === 0 ? "a" : "b");
  expect(queued).toHaveLength(1);
  await queued[0]?.();
  expect(bodies).toEqual([{ metadata: { annotations: { [heldAnnotation]: expect.stringContaining("two agents") } } }]);
  register("a");
  expect(queued).toHaveLength(2);
});

it("queues the hold with the next registration if the queue was full", () => {
  const { queued, register, fill } = setUp();
  fill(true);
  for (const instance of ["a", "b", "a"]) register(instance);
  expect(queued).toHaveLength(0);
  fill(false);
  register("b");
  expect(queued).toHaveLength(1);
});
