import { createVirtualClock } from "@keelson/api-machinery/testing";
import { createClient } from "@keelson/client";
import { expect, test, vi } from "vitest";
import { silentLogger } from "../logging/logger.ts";
import { FakeApiServer } from "../testing/fake-api-server.ts";
import { robotType } from "../testing/kinds.ts";
import { Informer } from "./informer.ts";

test("events that arrive together are handled in several turns of the event loop if their handlers are slow", async () => {
  const server = new FakeApiServer();
  const clock = createVirtualClock();
  let workMs = 0;
  const slow = {
    now: () => clock.now(),
    monotonic: () => clock.monotonic() + workMs,
    setTimer: clock.setTimer.bind(clock),
  };
  let effects = 0;
  const onEffect = (): void => {
    effects += 1;
    workMs += 10;
  };
  const client = createClient({ transport: server, fieldManager: "test", clock });
  const stop = new AbortController();
  const options = { client, clock: slow, type: robotType, random: () => 0, log: silentLogger, onEffect };
  const running = new Informer(options).run(stop.signal);
  await vi.waitFor(() => expect(server.openWatches).toBe(1));

  const before = effects;
  server.pause();
  for (let index = 0; index < 50; index++) {
    await client.create(robotType, { metadata: { name: `r${index}`, namespace: "default" } });
  }
  server.resume();
  const perTurn: number[] = [];
  let last = effects;
  while (effects < before + 50) {
    await new Promise((resolve) => setImmediate(resolve));
    perTurn.push(effects - last);
    last = effects;
  }
  expect(Math.max(...perTurn)).toBeLessThanOrEqual(4);
  stop.abort();
  await running;
});
