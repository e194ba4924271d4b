import { createVirtualClock } from "@keelson/api-machinery/testing";
import { silentLogger } from "@keelson/controller";
import { afterEach, expect, it, vi } from "vitest";
import { Follower } from "./follower.ts";
import { PostgresConnection, PostgresError } from "../server/postgres-client.ts";
import { PostgresServer } from "../server/postgres-server.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

it("follows only the last of several primaries, and none after it was canceled", async () => {
  const clock = createVirtualClock();
  const hosts: string[] = [];
  vi.spyOn(PostgresConnection, "open").mockImplementation(({ host }) => {
    hosts.push(host);
    return Promise.reject(new PostgresError("Unreachable", "connect ECONNREFUSED"));
  });
  const engine = {
    ...{ program: process.execPath, host: "127.0.0.1", port: 1, password: "", podName: "p-0", flags: { "run-as": "999:999" } },
    ...{ configFile: "/none", dataDir: "/none", clock, log: silentLogger },
    logins: () => [{ user: "postgres", password: "" }] as const,
  };
  const follower = new Follower({ engine, server: new PostgresServer(engine), exclusively: (act) => act() });
  follower.follow("a");
  follower.follow("b");
  follower.follow("b");
  await vi.waitFor(() => expect(hosts).toContain("b"));
  expect(follower.isWorking).toBe(true);
  await follower.cancel();
  expect(follower.isWorking).toBe(false);
  const attempts = hosts.length;
  await clock.advance(60_000);
  expect(hosts).toHaveLength(attempts);
  expect(hosts).not.toContain("a");
});
