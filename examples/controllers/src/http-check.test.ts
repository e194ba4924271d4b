import { createVirtualClock } from "@keelson/api-machinery/testing";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { createClient } from "@keelson/client";
import { createManager } from "@keelson/controller";
import { expect, test } from "vitest";
import { createHttpCheckController, HttpCheck } from "./http-check.ts";

test("checks a URL at its interval, even across a restart", async () => {
  const clock = createVirtualClock();
  await using environment = await startTestEnvironment({ crds: [HttpCheck.crd] });
  const client = createClient({ transport: environment.transport(), fieldManager: "http-check" });
  const checkedAt: number[] = [];
  const startedAt = clock.now();
  const start = async (code: number) => {
    const controller = createHttpCheckController(async () => {
      checkedAt.push((clock.now() - startedAt) / 1000);
      return code;
    });
    const manager = createManager({ client, clock, name: "http-check", controllers: [controller] });
    await manager.start();
    return manager;
  };
  /** Advances the clock until the next check has been recorded. */
  const next = async (seconds: number, healthy: boolean): Promise<void> => {
    const count = checkedAt.length;
    await clock.advance(seconds * 1000 - 1);
    expect(checkedAt).toHaveLength(count);
    await clock.advance(1);
    await expect.poll(() => checkedAt.length).toBe(count + 1);
    const time = new Date(clock.now()).toISOString().replace(".000Z", "Z");
    await expect
      .poll(async () => {
        await clock.advance(0);
        return (await client.get(HttpCheck, { namespace: "default", name: "home" })).status;
      })
      .toMatchObject({ healthy, lastCheckTime: time });
  };

  const first = await start(200);
  const spec = { url: "https://example.com/", intervalSeconds: 60 };
  await client.create(HttpCheck, { metadata: { namespace: "default", name: "home" }, spec });
  await expect.poll(() => checkedAt).toEqual([0]);
  await expect.poll(async () => (await client.list(HttpCheck)).items[0]?.status?.message).toBe("status 200");
  await next(60, true);
  await first.stop();

  await clock.advance(20_000);
  const second = await start(503);
  await next(40, false);
  expect(checkedAt).toEqual([0, 60, 120]);
  await second.stop();
});
