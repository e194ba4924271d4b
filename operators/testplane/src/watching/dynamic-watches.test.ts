import { statusError } from "@keelson/api-machinery";
import { CustomResourceDefinition } from "@keelson/api-machinery/kinds";
import type { ApiRequest, Transport, WatchEvent, WatchStream } from "@keelson/api-machinery/transport";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { IntegrationTest } from "../api/integration-test.ts";
import { Lamp, startTestplaneEnvironment, type TestplaneEnvironment } from "../testing/testplane-environment.ts";

/*
 * The dynamic watches of tests when the server closes them, has compacted their resource version, or no longer serves the
 * kind.
 */

const namespace = "default";

/** Watches on lamps that the test can close. */
class LampWatches {
  readonly #open = new Set<(last: WatchEvent<unknown> | undefined) => void>();
  /** Number of list and watch requests for lamps. */
  readonly asked = { lists: 0, watches: 0 };

  readonly wrap = (transport: Transport): Transport => ({
    request: (request) => {
      if (isLampRequest(request) && request.method === "GET") this.asked.lists += 1;
      return transport.request(request);
    },
    watch: async (request) => {
      const stream = await transport.watch(request);
      return isLampRequest(request) ? this.#held(stream) : stream;
    },
    close: () => transport.close(),
  });

  /** Closes the open watches, after an optional last event. Returns their number. */
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

const isLampRequest = ({ path }: ApiRequest): boolean => path.endsWith("/lamps");

let watches: LampWatches;
let environment: TestplaneEnvironment;
beforeEach(async () => {
  watches = new LampWatches();
  environment = await startTestplaneEnvironment(watches.wrap);
});
afterEach(() => environment[Symbol.asyncDispose]());

const manifest = { apiVersion: "example.com/v1", kind: "Lamp", metadata: { name: "desk" }, spec: { on: true } };
const isLit = { allOf: [{ function: "FieldEquals", params: { path: "status.phase", value: "Lit" } }] };
type Resource = IntegrationTest["spec"]["steps"][number]["resource"];
const create = (resource: Resource = { manifest }) => {
  const spec = { steps: [{ name: "light", resource, readyCondition: isLit }] };
  return environment.client.create(IntegrationTest, { metadata: { name: "light", namespace }, spec });
};
/** Reads a lamp that the test does not own, so that its deletion does not fail the test. */
const createReading = async () => {
  await environment.client.create(Lamp, { metadata: { name: "desk", namespace }, spec: {} });
  return create({ selector: { apiVersion: "example.com/v1", kind: "Lamp", name: "desk" } });
};
const light = () => environment.client.applyStatus(Lamp, { metadata: { name: "desk", namespace }, status: { phase: "Lit" } });
const waits = (message: RegExp) =>
  environment.until(IntegrationTest, "light", (each) => {
    const step = each?.status?.steps?.[0];
    return message.test([step?.message, ...(step?.readyConditionStatus?.results ?? []).map((result) => result.message)].join());
  });
const ends = () => environment.until(IntegrationTest, "light", (each) => each?.status?.completionTime !== undefined);

describe("a test that waits for an object", () => {
  it("continues after the server closed its watch", async () => {
    await create();
    await waits(/status\.phase is absent/);
    expect(watches.end()).toBe(1);
    await light();
    expect((await ends())?.status?.phase).toBe("Succeeded");
    expect(watches.asked.watches).toBe(2);
  });

  it("lists again if the resource version of its watch has expired (410)", async () => {
    await create();
    await waits(/status\.phase is absent/);
    const { lists } = watches.asked;
    expect(watches.end({ type: "ERROR", object: statusError("Expired", "too old resource version").status })).toBe(1);
    await light();
    expect((await ends())?.status?.phase).toBe("Succeeded");
    expect(watches.asked.lists).toBeGreaterThan(lists);
  });

  it("notices a change that happened while it had no watch", async () => {
    await createReading();
    await waits(/status\.phase is absent/);
    watches.end({ type: "ERROR", object: statusError("Expired", "too old resource version").status });
    await environment.client.delete(Lamp, { namespace, name: "desk" });
    await waits(/absent|does not exist/);
    await environment.client.create(Lamp, { metadata: { name: "desk", namespace }, spec: {} });
    await light();
    expect((await ends())?.status?.phase).toBe("Succeeded");
  });

  it("reports that its kind is no longer served, and continues when it is served again", async () => {
    await createReading();
    await waits(/status\.phase is absent/);
    const name = Lamp.crd.metadata.name ?? "";
    await environment.client.delete(CustomResourceDefinition, { name });
    await environment.until(CustomResourceDefinition, name, (each) => each === undefined).catch(() => {});
    await waits(/does not serve Lamp of example\.com\/v1/);
    await define();
    await environment.client.create(Lamp, { metadata: { name: "desk", namespace }, spec: {} });
    await light();
    expect((await ends())?.status?.phase).toBe("Succeeded");
  });
});

it("a test waits for its kind to be defined and then applies", async () => {
  const name = Lamp.crd.metadata.name ?? "";
  await environment.client.delete(CustomResourceDefinition, { name });
  await create();
  await waits(/does not serve Lamp of example\.com\/v1/);
  await define();
  await environment.until(Lamp, "desk", (each) => each !== undefined);
  await light();
  expect((await ends())?.status?.phase).toBe("Succeeded");
});

it("tests share one watch per kind, which stops with the last test", async () => {
  await create();
  await environment.client.create(IntegrationTest, {
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
  await environment.until(IntegrationTest, "other", (each) => each?.status?.steps?.[0]?.expectationResults?.length === 1);
  expect(watches.asked.watches).toBe(1);
  await light();
  await ends();
  await environment.until(IntegrationTest, "other", (each) => each?.status?.completionTime !== undefined);
  await expect.poll(() => watches.end()).toBe(0);
});

/** Defines lamps and waits until they are served. */
async function define(): Promise<void> {
  await environment.client.create(CustomResourceDefinition, Lamp.crd as never);
  const { name } = Lamp.crd.metadata;
  await expect
    .poll(async () => {
      const { status } = await environment.client.get(CustomResourceDefinition, { name });
      return status?.conditions?.some((each) => each.type === "Established" && each.status === "True");
    })
    .toBe(true);
}
