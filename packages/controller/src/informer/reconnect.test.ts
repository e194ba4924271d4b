import { createVirtualClock, type VirtualClock } from "@keelson/api-machinery/testing";
import { createClient, TransportError } from "@keelson/client";
import { beforeEach, describe, expect, test } from "vitest";
import { silentLogger } from "../logging/logger.ts";
import { FakeApiServer } from "../testing/fake-api-server.ts";
import { robotType } from "../testing/kinds.ts";
import { Informer } from "./informer.ts";

let server: FakeApiServer;
let clock: VirtualClock;

beforeEach(() => {
  server = new FakeApiServer();
  clock = createVirtualClock();
});

describe("after an outage", () => {
  test.each([
    ["the shortest jitter", 0],
    ["the longest jitter", 0.999],
  ])("an informer notices the server's return within 2 s, however often it was away, with %s", async (_, random) => {
    const client = createClient({ transport: server, fieldManager: "test", clock });
    const stop = new AbortController();
    let recovered = 0;
    const informer = new Informer({
      ...{ client, clock, type: robotType, random: () => random, log: silentLogger, onEffect: () => {} },
      onRecovered: () => (recovered += 1),
    });
    const running = informer.run(stop.signal);
    await clock.advance(10_000);
    expect(server.openWatches).toBe(1);
    expect(recovered).toBe(0);
    for (let outage = 0; outage < 6; outage++) {
      const attempts: number[] = [];
      server.intercept = () => {
        attempts.push(clock.monotonic());
        throw new TransportError("Unreachable", "connection refused");
      };
      server.endWatches(new TransportError("ConnectionLost", "cut"));
      await clock.advance(4_000);
      expect(server.openWatches).toBe(0);
      expect(attempts.length).toBeLessThan(12);
      server.intercept = undefined;
      await clock.advance(2_000);
      expect(server.openWatches).toBe(1);
      expect(recovered).toBe(outage + 1);
      await clock.advance(3_000);
    }
    stop.abort();
    await running;
    expect(clock.pendingTimers).toBe(0);
  });
});
