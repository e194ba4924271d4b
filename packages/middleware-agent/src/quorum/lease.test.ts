import { describe, expect, it } from "vitest";
import { shouldStand } from "./candidacy.ts";
import { answerLease, type LeaseRequest, type LeaseState, mayWrite, recordAnswer, stand, startLease } from "./lease.ts";
import { leaseTimes } from "./lease-times.ts";

const members = ["a", "b", "c"];
const request = (from: string, more: Partial<LeaseRequest> = {}): LeaseRequest => ({
  from,
  epoch: 1,
  offset: 100,
  kind: "stand",
  ...more,
});
/** The agent of `c` after its quiet time, which granted its lease to `a` at time 0. */
function granter(): LeaseState {
  const fresh = { ...startLease("c", members, 0), quietUntil: 0 };
  return answerLease(fresh, request("a", { kind: "renew" }), 100, 0).state;
}
const answer = (state: LeaseState, asked: LeaseRequest, now: number, offset = 100) =>
  answerLease(state, asked, offset, now).answer;

describe("an agent", () => {
  it("grants its lease to one holder until it expires", () => {
    expect(answer(granter(), request("b", { epoch: 2 }), leaseTimes.leaseMs - 1).reason).toBe("a has the lease");
    expect(answer(granter(), request("b", { epoch: 2 }), leaseTimes.leaseMs).isGranted).toBe(true);
  });

  it("grants a lease early over a holder that is down, but not over its next lease", () => {
    const over = { holder: "a", epoch: 1 };
    expect(answer(granter(), request("b", { epoch: 3, over }), 1).isGranted).toBe(true);
    const renewed = answerLease(granter(), request("a", { kind: "renew", epoch: 2 }), 100, 1).state;
    expect(answer(renewed, request("b", { epoch: 3, over }), 2).reason).toBe("a has the lease");
  });

  it("promises an epoch to one holder", () => {
    expect(answer(granter(), request("b", { epoch: 1 }), leaseTimes.leaseMs).reason).toBe("epoch 1 must be newer than 1");
  });

  it("that has restarted grants only renewals, and nothing if it lost what it promised", () => {
    const restarted = startLease("c", members, 0, { record: { promised: { holder: "a", epoch: 1 }, reported: 0 } });
    expect(answer(restarted, request("a", { kind: "renew" }), 1).isGranted).toBe(true);
    expect(answer(restarted, request("b", { epoch: 2 }), 1).reason).toBe("the agent has restarted");
    expect(answer(startLease("c", members, 0), request("a", { kind: "renew" }), 1).reason).toBe("the agent has restarted");
  });

  it("refuses a candidate that has less data than itself, or than the primary reported", () => {
    const at = leaseTimes.leaseMs;
    expect(answer(granter(), request("b", { epoch: 2, offset: 99 }), at).reason).toBe("c has more data");
    expect(answer(granter(), request("b", { epoch: 2, offset: 99 }), at, 50).reason).toBe("b lacks 1 bytes of the primary");
    const tolerant = { ...granter(), maxLagBytes: 1 };
    expect(answer(tolerant, request("b", { epoch: 2, offset: 99 }), at, 50).isGranted).toBe(true);
    expect(answer(granter(), request("b", { epoch: 2, offset: 9, isAppointed: true }), at).isGranted).toBe(true);
  });

  it("grants a released lease to the named successor only", () => {
    const released = answerLease(granter(), request("a", { kind: "release", successor: "b" }), 100, 1).state;
    expect(answer(released, request("c", { epoch: 9 }), 2).reason).toBe("b has the lease");
    expect(answer(released, request("b", { epoch: 3 }), 2).isGranted).toBe(true);
  });

  it("that never granted its lease accepts the successor of the holder", () => {
    const asked = request("a", { kind: "release", successor: "b" });
    const state = answerLease(startLease("c", members, 0), asked, 100, 1).state;
    expect(answer(state, request("b", { epoch: 3 }), 2).isGranted).toBe(true);
    expect(answer(state, request("a", { epoch: 3 }), 2).reason).toBe("b has the lease");
  });

  it("ignores requests of Pods that are not members, and late releases", () => {
    expect(answer(granter(), request("x", { epoch: 9 }), leaseTimes.leaseMs).reason).toBe("x is not a member");
    expect(answerLease(granter(), request("a", { kind: "release", epoch: 0 }), 100, 1).state).toMatchObject({
      grant: granter().grant,
      promised: granter().promised,
    });
  });
});

describe("a holder", () => {
  const held = (): LeaseState => {
    let state = stand({ ...startLease("a", members, 0), quietUntil: 0 }, 0);
    for (const from of ["a", "b"]) state = recordAnswer(state, from, 1, { isGranted: true, epoch: 1 }, 10);
    return state;
  };

  it("accepts writes while a majority has granted its leases", () => {
    expect(mayWrite(stand(startLease("a", members, 0), 0), 0)).toBe(false);
    expect(mayWrite(held(), 10 + leaseTimes.fenceMs - 1)).toBe(true);
    expect(mayWrite(held(), 10 + leaseTimes.fenceMs)).toBe(false);
  });

  it("does not count leases of an earlier tenure", () => {
    expect(mayWrite(recordAnswer(stand(held(), 20), "b", 1, { isGranted: true, epoch: 1 }, 20), 21)).toBe(false);
  });

  it("without members accepts writes, because the controller decides alone", () => {
    expect(mayWrite(startLease("a", [], 0), 0)).toBe(true);
  });
});

it("stands if the lease of the primary has expired or its program is down, and if it has the data", () => {
  expect(shouldStand(granter(), 100, false, leaseTimes.leaseMs - 1)).toBe(false);
  expect(shouldStand(granter(), 100, false, leaseTimes.leaseMs)).toBe(true);
  expect(shouldStand(granter(), 100, true, 1)).toBe(true);
  expect(shouldStand(granter(), 99, true, 1)).toBe(false);
  expect(shouldStand(startLease("c", members, 0), 100, false, leaseTimes.leaseMs)).toBe(false);
});
