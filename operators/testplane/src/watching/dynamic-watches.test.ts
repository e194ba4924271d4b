import { statusError } from "@keelson/api-machinery";
import { CustomResourceDefinition } from "@keelson/api-machinery/kinds";
import type { ApiRequest, Transport, WatchEvent, WatchStream } from "@keelson/api-machinery/transport";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { IntegrationTest } from "../api/integration-test.ts";
import { Lamp, startTested, type Tested } from "../testing/tested.ts";

/*
 * The watches that tests start on the kinds they name, when the server ends them, has forgotten where they were, or does not serve the
 * kind any more.
 */

const namespace = "default";

/** Watches on lamps whose ends are in the test's hand. */
class LampWatches {
  readonly #open = new Set<(last: WatchEvent<unknown> | undefined) => void>();
  /** Lists and watches of lamps so far. */
  readonly asked = { lists: 0, watches: 0 };

  readonly way = (transport: Transport): Transport => ({
    request: (request) => {
      if (isOfLamps(request) && request.method === "GET") this.asked.lists += 1;
      return transport.request(request);
    },
    watch: async (request) => {
      const stream = await transport.watch(request);
      return isOfLamps(request) ? this.#held(stream) : stream;
    },
    close: () => transport.close(),
  });

  /** Ends the open watches, with a last event where one is given. Answers how many there were. */
  end(last?: WatchEvent<unknown>): number {
    const { size } = this.#open;
    for (const end of [...this.#open]) end(last);
    return size;
  }

  #held(stream: WatchStream): WatchStream {
    this.asked.watches += 1;
    let last: WatchEvent<unknown> | undefined;
    const end = (event: WatchEvent<unknown> | undefined): void => {
      last = event;
      this.#open.delete(end);
      stream.close();
    };
    this.#open.add(end);
    async function* events(): AsyncGenerator<WatchEvent<unknown>, void, undefined> {
      yield* stream;
      if (last !== undefined) yield last;
    }
    const iterator = events();
    return { [Symbol.asyncIterator]: () => iterator, close: () => end(undefined) };
  }
}

const isOfLamps = ({ path }: ApiRequest): boolean => path.endsWith("/lamps");

let watches: LampWatches;
let tested: Tested;
beforeEach(async () => {
  watches = new LampWatches();
  tested = await startTested(watches.way);
});
afterEach(() => tested[Symbol.asyncDispose]());

const manifest = { apiVersion: "example.com/v1", kind: "Lamp", metadata: { name: "desk" }, spec: { on: true } };
const spec: IntegrationTest["spec"] = {
  steps: [
    {
      name: "light",
      resource: { manifest },
      readyCondition: { allOf: [{ function: "FieldEquals", params: { path: "status.phase", value: "Lit" } }] },
    },
  ],
};
const create = () => tested.client.create(IntegrationTest, { metadata: { name: "light", namespace }, spec });
const light = () => tested.client.applyStatus(Lamp, { metadata: { name: "desk", namespace }, status: { phase: "Lit" } });
const waits = (message: RegExp) =>
  tested.until(IntegrationTest, "light", (each) => {
    const step = each?.status?.steps?.[0];
    return message.test([step?.message, ...(step?.readyConditionStatus?.results ?? []).map((result) => result.message)].join());
  });
const ends = () => tested.until(IntegrationTest, "light", (each) => each?.status?.completionTime !== undefined);

describe("a test that waits for an object", () => {
  it("goes on after the server has cut its watch", async () => {
    await create();
    await waits(/status\.phase is absent/);
    expect(watches.end()).toBe(1);
    await light();
    expect((await ends())?.status?.phase).toBe("Succeeded");
    expect(watches.asked.watches).toBe(2);
  });

  it("reads everything again where the server has forgotten the place of its watch (410)", async () => {
    await create();
    await waits(/status\.phase is absent/);
    const { lists } = watches.asked;
    expect(watches.end({ type: "ERROR", object: statusError("Expired", "too old resource version").status })).toBe(1);
    await light();
    expect((await ends())?.status?.phase).toBe("Succeeded");
    expect(watches.asked.lists).toBeGreaterThan(lists);
  });

  it("notices what happened while it had no watch, as a deletion", async () => {
    await create();
    await waits(/status\.phase is absent/);
    watches.end({ type: "ERROR", object: statusError("Expired", "too old resource version").status });
    await tested.client.delete(Lamp, { namespace, name: "desk" });
    await waits(/no Lamp desk|absent|there is no/);
    await tested.client.create(Lamp, { metadata: { name: "desk", namespace }, spec: {} });
    await light();
    expect((await ends())?.status?.phase).toBe("Succeeded");
  });

  it("says that its kind is not served once that is deleted, and goes on when it is served again", async () => {
    await create();
    await waits(/status\.phase is absent/);
    const name = Lamp.crd.metadata.name ?? "";
    await tested.client.delete(CustomResourceDefinition, { name });
    await tested.until(CustomResourceDefinition, name, (each) => each === undefined).catch(() => {});
    await waits(/no kind Lamp of example\.com\/v1 is served/);
    await define();
    await tested.client.create(Lamp, { metadata: { name: "desk", namespace }, spec: {} });
    await light();
    expect((await ends())?.status?.phase).toBe("Succeeded");
  });
});

it("a test whose kind is defined after it waits for the definition and then applies", async () => {
  const name = Lamp.crd.metadata.name ?? "";
  await tested.client.delete(CustomResourceDefinition, { name });
  await create();
  await waits(/no kind Lamp of example\.com\/v1 is served/);
  await define();
  await tested.until(Lamp, "desk", (each) => each !== undefined);
  await light();
  expect((await ends())?.status?.phase).toBe("Succeeded");
});

it("a kind is watched once however many tests look at it, and no more when the last has ended", async () => {
  await create();
  await tested.client.create(IntegrationTest, {
    metadata: { name: "other", namespace },
    spec: {
      steps: [
        {
          name: "look",
          resource: { selector: { apiVersion: "example.com/v1", kind: "Lamp", name: "desk" } },
          expectations: { allOf: [{ function: "FieldEquals", params: { path: "status.phase", value: "Lit" } }] },
        },
      ],
    },
  });
  await waits(/status\.phase is absent/);
  await tested.until(IntegrationTest, "other", (each) => each?.status?.steps?.[0]?.expectationResults?.length === 1);
  expect(watches.asked.watches).toBe(1);
  await light();
  await ends();
  await tested.until(IntegrationTest, "other", (each) => each?.status?.completionTime !== undefined);
  await expect.poll(() => watches.end()).toBe(0);
});

/** Defines lamps (again) and waits until they are served. */
async function define(): Promise<void> {
  await tested.client.create(CustomResourceDefinition, Lamp.crd as never);
  const { name } = Lamp.crd.metadata;
  await expect
    .poll(async () => {
      const { status } = await tested.client.get(CustomResourceDefinition, { name });
      return status?.conditions?.some((each) => each.type === "Established" && each.status === "True");
    })
    .toBe(true);
}
