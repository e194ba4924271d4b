import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { leaseTimes } from "./lease-times.ts";
import { SimulatedGroup } from "../testing/simulated-group.ts";

let group: SimulatedGroup;
beforeEach(async () => {
  group = new SimulatedGroup(3);
  await group.start();
});
afterEach(() => group.stop());

describe("the agents of a Group", () => {
  it("keep a healthy primary", async () => {
    await group.run(30_000);
    expect(group.writable()).toEqual(["p-0"]);
    expect(group.member(1).quorum.leader).toEqual({ name: "p-0", host: "host-0" });
  });

  it("elect a replica if the program of the primary has ended, and the others follow it", async () => {
    group.member(0).program.isUp = false;
    await group.run(3_000);
    const [elected] = group.writable();
    expect(["p-1", "p-2"]).toContain(elected);
    const follower = group.members.find(({ name }) => name !== elected && name !== "p-0");
    await group.run(1_000);
    expect(follower?.program).toMatchObject({ role_: "replica", primaryHost: elected?.replace("p-", "host-") });
    // It returns without a role.
    Object.assign(group.member(0).program, { isUp: true, role_: "recovering", guardAt: undefined });
    await group.run(leaseTimes.leaseMs);
    expect(group.member(0).program).toMatchObject({ role_: "replica", primaryHost: elected?.replace("p-", "host-") });
    expect(group.writable()).toEqual([elected]);
  });

  it("fence a primary that cannot reach a majority before another one is elected", async () => {
    group.isolate(0);
    await group.run(leaseTimes.fenceMs + 500);
    expect(group.writable()).toEqual([]);
    expect((await group.member(0).engine.role()).role).toBe("recovering");
    await group.run(5_000);
    const [elected] = group.writable();
    expect(["p-1", "p-2"]).toContain(elected);
    group.isolate(0, false);
    await group.run(5_000);
    expect(group.member(0).program.role_).toBe("replica");
    expect(group.writable()).toEqual([elected]);
  });

  it("kill the program of a primary whose agent is frozen before another one is elected", async () => {
    const { quorum } = group.member(0);
    quorum.stop();
    group.member(0).isAgentUp = false;
    await group.run(10_000);
    expect(group.member(0).program.isUp).toBe(false);
    expect(group.writable()).toHaveLength(1);
  });

  it("elect no Pod without a majority, and the primary resumes when it returns", async () => {
    group.isolate(1);
    group.isolate(2);
    await group.run(20_000);
    expect(group.writable()).toEqual([]);
    group.isolate(1, false);
    await group.run(15_000);
    expect(group.writable()).toHaveLength(1);
  });

  it("do not elect a replica that lacks data that the primary reported", async () => {
    group.member(0).program.offset = 200;
    group.member(1).program.offset = 150;
    group.member(2).program.offset = 200;
    await group.run(3_000);
    group.member(0).program.isUp = false;
    await group.run(10_000);
    expect(group.writable()).toEqual(["p-2"]);
  });

  it("pass the lease on in a planned switchover", async () => {
    const outcome = await Promise.all([
      group.member(0).engine.failover({ target: "host-2", others: ["host-1"], epoch: 2, timeoutMs: 5_000 }),
      group.run(1_000),
    ]);
    expect(outcome[0]).toEqual({ ok: true });
    await group.run(2_000);
    expect(group.writable()).toEqual(["p-2"]);
    // The guard must not end the former primary.
    await group.run(leaseTimes.leaseMs);
    expect(group.member(0).program.isUp).toBe(true);
  });

  it("let the controller choose the next primary, and refuse a primary whose lease another Pod has", async () => {
    const take = group.member(2).engine.failover({ target: "host-2", others: [], epoch: 2, timeoutMs: 5_000 });
    expect((await Promise.all([take, group.run(2_000)]))[0]).toEqual({ ok: true });
    await group.run(2_000);
    expect(group.writable()).toEqual(["p-2"]);
    const assigned = group.member(1).engine.assign({ role: "primary", primaryHost: "host-1", epoch: 9 });
    expect((await Promise.all([assigned, group.run(5_000)]))[0]).toMatchObject({ ok: false });
    expect(group.writable()).toEqual(["p-2"]);
  });

  it("elect a replica with the vote of an agent whose own program does not respond", async () => {
    group.member(1).program.isSilent = true;
    group.isolate(0);
    await group.run(10_000);
    expect(group.writable()).toEqual(["p-2"]);
  });

  it.each([0, 1_000, 5_000])("replace a primary that is cut off %i ms after they became members", async (afterMs) => {
    const fresh = new SimulatedGroup(3);
    await fresh.start(afterMs);
    fresh.isolate(0);
    await fresh.run(10_000);
    expect(["p-1", "p-2"]).toContain(fresh.writable().join());
    fresh.stop();
  });

  it("leave the decision to the controller until a majority can grant the first lease", async () => {
    const fresh = new SimulatedGroup(3);
    for (const { quorum } of fresh.members) await quorum.start();
    const hosts = { "p-0": "host-0", "p-1": "host-1", "p-2": "host-2" };
    const members = { key: "1", hosts, maxLagBytes: 0 };
    const outcome = await fresh.member(0).quorum.setMembers(members);
    expect(outcome).toMatchObject({ ok: false });
    await fresh.run(20_000);
    expect([fresh.writable(), (await fresh.member(0).engine.role()).info["members"]]).toEqual([["p-0"], ""]);
    await fresh.member(2).quorum.setMembers(members);
    await fresh.run(2_000);
    expect(await fresh.member(0).quorum.setMembers(members)).toEqual({ ok: true });
    expect((await fresh.member(0).engine.role()).info["members"]).toBe("1");
    fresh.stop();
  });

  it("learn the new address of a Pod that was replaced", async () => {
    group.isolate(2);
    await group.member(1).quorum.answer({ kind: "hello", from: "p-2", host: "host-9" });
    await group.run(100);
    expect(group.member(1).stored?.members.hosts["p-2"]).toBe("host-9");
  });
});
