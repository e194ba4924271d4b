import { Lease } from "@keelson/api-machinery/kinds";
import { createVirtualClock, type VirtualClock } from "@keelson/api-machinery/testing";
import { type Client, createClient } from "@keelson/client";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { beforeEach, describe, expect, test } from "vitest";
import { silentLogger } from "../logging/logger.ts";
import { FakeApiServer } from "../testing/fake-api-server.ts";
import { identifyProcess, type ProcessInspector } from "./holder-process.ts";
import { LeaderElection, type LeaderElectionOptions } from "./leader-election.ts";

let client: Client;
let clock: VirtualClock;

beforeEach(() => {
  clock = createVirtualClock();
  client = createClient({ transport: new FakeApiServer(), fieldManager: "test", clock });
});

const elect = (identity: string, more: Partial<LeaderElectionOptions> = {}): LeaderElection =>
  new LeaderElection({
    ...{ client, namespace: "kube-system", name: "op", identity, clock, random: () => 0, log: silentLogger },
    ...more,
  });

/** A leader that holds the lease for `leadsMs` and then crashes. */
async function crashAfter(leader: LeaderElection, leadsMs: number): Promise<void> {
  const crash = new AbortController();
  await leader.acquire(crash.signal);
  const held = leader.hold(crash.signal);
  await clock.advance(leadsMs);
  crash.abort();
  await held;
}

/** Waits until `follower` leads. Returns how long that took. */
async function timeToLead(follower: LeaderElection): Promise<number> {
  const from = clock.monotonic();
  const leads = follower.acquire(new AbortController().signal).then(() => clock.monotonic() - from);
  await clock.advance(40_000);
  return leads;
}

test("a standby leads within 5 s of the expiry of a crashed holder's lease, whenever it looks at the lease", async () => {
  for (let offsetMs = 0; offsetMs < 4_400; offsetMs += 400) {
    clock = createVirtualClock();
    client = createClient({ transport: new FakeApiServer(), fieldManager: "test", clock });
    const leader = elect("leader");
    await leader.acquire(new AbortController().signal);
    const crash = new AbortController();
    const held = leader.hold(crash.signal);
    await clock.advance(offsetMs);
    let leadsAt: number | undefined;
    const standby = elect("standby", { random: () => 0.999 });
    const acquired = standby.acquire(new AbortController().signal).then(() => (leadsAt = clock.monotonic()));
    await clock.advance(20_000 - offsetMs);
    crash.abort();
    await held;
    await clock.advance(40_000);
    await acquired;
    const expiresAt = 20_000 + 15_000;
    expect(leadsAt).toBeGreaterThanOrEqual(expiresAt);
    expect(leadsAt).toBeLessThanOrEqual(expiresAt + 5_000);
  }
});

describe("a restarted process", () => {
  const before: ProcessInspector = { self: () => "machine/1/100", hasExited: () => false };

  test("leads within 500 ms if the holder ran on this machine and has exited", async () => {
    await crashAfter(elect("before", { processes: before }), 3_000);
    const asked: string[] = [];
    const processes: ProcessInspector = { self: () => "machine/2/200", hasExited: (id) => asked.push(id) > 0 };
    const after = elect("after", { processes, random: () => 0.999 });
    expect(await timeToLead(after)).toBeLessThanOrEqual(500);
    expect(new Set(asked)).toEqual(new Set(["machine/1/100"]));
  });

  test("leaves time for the holder's last writes before it leads", async () => {
    await crashAfter(elect("before", { processes: before }), 3_000);
    const after = elect("after", { processes: { self: () => undefined, hasExited: () => true } });
    expect(await timeToLead(after)).toBe(500);
  });

  test("leads immediately if it observed the lease while it started", async () => {
    await crashAfter(elect("before", { processes: before }), 3_000);
    const after = elect("after", { processes: { self: () => undefined, hasExited: () => true } });
    await after.observe(new AbortController().signal);
    await clock.advance(500);
    expect(await timeToLead(after)).toBe(0);
  });

  test("waits for the lease to expire if another process took it while it started", async () => {
    await crashAfter(elect("before", { processes: before }), 3_000);
    const exited = new Set(["machine/1/100"]);
    const after = elect("after", { processes: { self: () => undefined, hasExited: (id) => exited.has(id) } });
    await after.observe(new AbortController().signal);
    await clock.advance(500);
    const faster = elect("faster", { processes: { self: () => "machine/3/300", hasExited: (id) => exited.has(id) } });
    const crash = new AbortController();
    const leads = faster.acquire(crash.signal);
    await clock.advance(1_000);
    await leads;
    expect(await timeToLead(after)).toBeGreaterThanOrEqual(15_000);
  });

  test.each([
    ["is still running", before, undefined],
    ["could not be identified", { self: () => undefined, hasExited: () => true }, undefined],
    ["was followed by a holder of another implementation", before, "client-go"],
  ])("waits for the lease to expire if the process %s", async (_, processes, takenBy) => {
    await crashAfter(elect("before", { processes }), 3_000);
    const isExited = takenBy !== undefined || processes.hasExited("");
    const follower: ProcessInspector = { self: () => "machine/2/200", hasExited: () => isExited };
    if (takenBy !== undefined) {
      const body = { spec: { holderIdentity: takenBy } };
      await client.patch(Lease, { namespace: "kube-system", name: "op" }, { type: "merge", body });
    }
    expect(await timeToLead(elect("after", { processes: follower }))).toBeGreaterThanOrEqual(15_000);
  });

  test.runIf(process.platform === "linux")("takes over from a real process only after that was killed", async () => {
    const holder = spawn("sleep", ["60"], { stdio: "ignore" });
    await once(holder, "spawn");
    const id = identifyProcess(holder.pid ?? 0) ?? "";
    await elect("before", { processes: { self: () => id, hasExited: () => false } }).acquire(new AbortController().signal);
    let leads = false;
    const acquired = elect("after")
      .acquire(new AbortController().signal)
      .then(() => (leads = true));
    await clock.advance(5_000);
    expect(leads).toBe(false);
    const exited = once(holder, "exit");
    holder.kill("SIGKILL");
    await exited;
    // The next look at the lease, and the time for the holder's last writes.
    await clock.advance(2_500);
    expect(leads).toBe(true);
    await acquired;
  });
});
