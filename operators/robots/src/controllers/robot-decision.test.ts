import { describe, expect, it } from "vitest";
import { joinTokenAnnotation } from "../api/names.ts";
import type { Robot } from "../api/robot.ts";
import { after, robotOf, t0 } from "../testing/objects.ts";
import { decideRobot, heartbeatTimeoutMs, joinTokenDigest, needsJoinToken, type RobotObservation } from "./robot-decision.ts";

const registered = (token = "right") => ({ [joinTokenAnnotation]: joinTokenDigest(token) });
const heard = { lastHeartbeatTime: after(0), connected: true } satisfies Robot["status"];
const decide = (robot: RobotObservation["robot"], rest: Partial<RobotObservation> = {}) =>
  decideRobot({ robot, joinToken: { value: "right" }, watchedSince: t0, now: t0, ...rest });
const conditionOf = (decision: ReturnType<typeof decide>, type: string) =>
  decision.status?.conditions?.find((each) => each.type === type);

describe("approval of a Robot", () => {
  it("is given to one that knows the join token; then it is Online", () => {
    const decision = decide(robotOf("r", { annotations: registered(), status: heard }));
    expect(decision.status).toMatchObject({ phase: "Online", verifiedTokenSha256: joinTokenDigest("right") });
    expect(conditionOf(decision, "Approved")).toMatchObject({ status: "True", reason: "JoinTokenAccepted" });
    expect(decision.event).toMatchObject({ type: "Normal", reason: "Online" });
  });

  it("is not given to one that knows another, with an event that is told once", () => {
    const robot = robotOf("r", { annotations: registered("wrong"), status: heard });
    const decision = decide(robot);
    expect(decision.status?.phase).toBe("Pending");
    expect(conditionOf(decision, "Approved")).toMatchObject({ status: "False", reason: "WrongJoinToken" });
    expect(decision.event).toMatchObject({ type: "Warning", reason: "WrongJoinToken" });
    expect(decide({ ...robot, status: { ...heard, ...decision.status } })).toEqual({});
  });

  it.each([
    ["nothing registered", undefined, { value: "right" }, "NotRegistered"],
    ["no Secret", registered(), { missing: "there is no Secret" }, "NoJoinToken"],
    ["an annotation that is no digest", { [joinTokenAnnotation]: "right" }, { value: "right" }, "WrongJoinToken"],
  ] as const)("waits with %s", (_, annotations, joinToken, reason) => {
    const decision = decide(robotOf("r", { ...(annotations ? { annotations: { ...annotations } } : {}), status: heard }), {
      joinToken,
    });
    expect(decision.status?.phase).toBe("Pending");
    expect(conditionOf(decision, "Approved")?.reason).toBe(reason);
  });

  it("follows spec.approved before the join token, both ways", () => {
    expect(
      decide(robotOf("r", { spec: { approved: true }, annotations: registered("wrong"), status: heard })).status?.phase,
    ).toBe("Online");
    expect(decide(robotOf("r", { spec: { approved: false }, annotations: registered(), status: heard })).status?.phase).toBe(
      "Pending",
    );
  });

  it("stays when the join token changes later", () => {
    const robot = robotOf("r", {
      annotations: registered(),
      status: { ...heard, verifiedTokenSha256: joinTokenDigest("right") },
    });
    expect(needsJoinToken(robot)).toBe(false);
    expect(decide(robot, { joinToken: undefined }).status?.phase).toBe("Online");
  });

  it("is refused to an object whose name is not the robot's id", () => {
    const robot = robotOf("r", { spec: { robotId: "other", approved: true }, status: heard });
    expect(conditionOf(decide(robot), "Approved")?.reason).toBe("NameMismatch");
  });
});

describe("presence of a Robot", () => {
  const online = (status: Robot["status"]) =>
    robotOf("r", { spec: { approved: true }, status: { phase: "Online", ...heard, ...status } });

  it("lasts as long as it is heard of, and the next look is when that ends (B11)", () => {
    const decision = decide(online({ lastHeartbeatTime: after(60_000) }), { now: t0 + 80_000 });
    expect(decision.status?.phase).toBe("Online");
    expect(decision.requeueAfterMs).toBe(heartbeatTimeoutMs - 20_000);
  });

  it("ends when it is not heard of for 90 seconds", () => {
    const at = t0 + heartbeatTimeoutMs;
    expect(decide(online({}), { now: at - 1 }).status?.phase).toBe("Online");
    const decision = decide(online({}), { now: at });
    expect(decision.status).toMatchObject({
      phase: "Offline",
      message: "not heard of for 90 seconds, last at 2026-01-01T00:00:00.000Z",
    });
    expect(decision.event).toMatchObject({ type: "Warning", reason: "Offline" });
    expect(decision.requeueAfterMs).toBeUndefined();
  });

  it("ends at once when the broker says that the connection is lost", () => {
    expect(decide(online({ connected: false })).status?.phase).toBe("Offline");
  });

  it("is not ended by this manager's own absence (F19)", () => {
    const tenMinutes = 600_000;
    const robot = online({});
    expect(decide(robot, { watchedSince: t0 + tenMinutes, now: t0 + tenMinutes }).status?.phase).toBe("Online");
    expect(decide(robot, { watchedSince: t0 + tenMinutes, now: t0 + tenMinutes + heartbeatTimeoutMs }).status?.phase).toBe(
      "Offline",
    );
  });

  it("does not begin by this manager's start", () => {
    const robot = robotOf("r", { spec: { approved: true }, status: { ...heard, phase: "Offline" } });
    expect(decide(robot, { watchedSince: t0 + 600_000, now: t0 + 600_000 }).status?.phase).toBe("Offline");
  });

  it("is pending for one that was approved and never seen", () => {
    expect(decide(robotOf("r", { spec: { approved: true }, status: {} })).status?.phase).toBe("Pending");
  });
});
