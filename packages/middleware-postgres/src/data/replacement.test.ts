import { createVirtualClock } from "@keelson/api-machinery/testing";
import { expect, test, vi } from "vitest";
import { LocalConnection, PostgresError } from "../server/postgres-client.ts";
import { Replacement } from "./replacement.ts";
import { observeState } from "../server/server-state.ts";

const recovering = new PostgresError("Refused", "the database system is starting up");

function createServer(): Parameters<typeof observeState>[0] {
  const connection = new LocalConnection({ host: "/none", port: 1, password: "", timeoutMs: 1_000 });
  return { isRunning: true, connection, verify: () => Promise.resolve() };
}

test("a server is queried again once the replacement of its data has taken too long", async () => {
  const clock = createVirtualClock();
  const replacement = new Replacement(clock);
  const server = createServer();
  const query = vi.spyOn(server.connection, "one").mockRejectedValue(recovering);
  let end: (outcome: string) => void = () => undefined;
  const ended = new Promise<string>((resolve) => {
    end = resolve;
  });
  const result = replacement.run(() => ended);
  await clock.advance(59_000);
  expect(replacement.isOnTime).toBe(true);
  expect(await observeState(server, replacement)).toBeUndefined();
  expect(query).not.toHaveBeenCalled();
  await clock.advance(1_000);
  expect(replacement).toMatchObject({ isOnTime: false, isUnderWay: true });
  expect(await observeState(server, replacement)).toBeUndefined();
  expect(query).toHaveBeenCalledOnce();
  query.mockResolvedValue({ pid: "7", standby: "false" });
  expect(await observeState(server, replacement)).toMatchObject({ pid: "7", isStandby: false });
  end("replaced");
  expect(await result).toBe("replaced");
  expect(replacement.isUnderWay).toBe(false);
});

test("each replacement has its own deadline, even after one that failed", async () => {
  const clock = createVirtualClock();
  const replacement = new Replacement(clock);
  await expect(replacement.run(() => Promise.reject(new Error("no space")))).rejects.toThrow("no space");
  expect(replacement).toMatchObject({ isOnTime: false, isUnderWay: false });
  const server = createServer();
  vi.spyOn(server.connection, "one").mockRejectedValue(recovering);
  await expect(observeState(server, replacement)).rejects.toBe(recovering);
  await clock.advance(90_000);
  await replacement.run(() => {
    expect(replacement.isOnTime).toBe(true);
    return Promise.resolve();
  });
});
