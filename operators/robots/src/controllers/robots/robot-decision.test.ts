import { describe, expect, it } from "vitest";
import { joinTokenAnnotation } from "../../api/names.ts";
import type { Robot } from "../../api/robot.ts";
import { joinTokenDigest } from "../../identity/secret.ts";
import { after, robotOf, t0 } from "../../testing/objects.ts";
import { decideRobot, heartbeatTimeoutMs, needsJoinToken, type RobotObservation } from "./robot-decision.ts";

const registered = (token = "right") => ({ [joinTokenAnnotation]: joinTokenDigest(token) });
const seen = { lastHeartbeatTime: after(0), connected: true } satisfies Robot["status"];
const decide = (robot: RobotObservation["robot"], rest: Partial<RobotObservation> = {}) =>
  decideRobot({ robot, joinToken: { value: "right" }, watchedSince: t0, now: t0, ...rest });
const conditionOf = (decision: ReturnType<typeof decide>, type: string) =>
  decision.status?.conditions?.find((each) => each.type === type);

describe("approval of a Robot", () => {
  it("is granted for the join token and makes the robot Online", () => {
    const decision = decide(robotOf("r", { annotations: registered(), status: seen }));
    expect(decision.status).toMatchObject({ phase: "Online", verifiedTokenSha256: joinTokenDigest("right") });
    expect(conditionOf(decision, "Approved")).toMatchObject({ status: "True", reason: "JoinTokenAccepted" });
    expect(decision.event).toMatchObject({ type: "Normal", reason: "Online" });
  });

  it("is denied for another token, with one event", () => {
    const robot = robotOf("r", { annotations: registered("wrong"), status: seen });
    const decision = decide(robot);
    expect(decision.status?.phase).toBe("Pending");
    expect(conditionOf(decision, "Approved")).toMatchObject({ status: "False", reason: "WrongJoinToken" });
    expect(decision.event).toMatchObject({ type: "Warning", reason: "WrongJoinToken" });
    expect(decide({ ...robot, status: { ...seen, ...decision.status } })).toEqual({});
  });

  it.each([
    ["nothing registered", undefined, { value: "right" }, "NotRegistered"],
    ["no Secret", registered(), { missing: "Secret not found" }, "NoJoinToken"],
    ["an annotation that is not a digest", { [joinTokenAnnotation]: "right" }, { value: "right" }, "WrongJoinToken"],
  ] as const)("is pending with %s", (_, annotations, joinToken, reason) => {
    const decision = decide(robotOf("r", { ...(annotations ? { annotations: { ...annotations } } : {}), status: seen }), {
      joinToken,
    });
    expect(decision.status?.phase).toBe("Pending");
    expect(conditionOf(decision, "Approved")?.reason).toBe(reason);
  });

  it("follows spec.approved over the join token, both ways", () => {
    expect(
      decide(robotOf("r", { spec: { approved: true }, annotations: registered("wrong"), status: seen })).status?.phase,
    ).toBe("Online");
    expect(decide(robotOf("r", { spec: { approved: false }, annotations: registered(), status: seen })).status?.phase).toBe(
      "Pending",
    );
  });

  it("stays when the join token changes later", () => {
    const robot = robotOf("r", {
      annotations: registered(),
      status: { ...seen, verifiedTokenSha256: joinTokenDigest("right") },
    });
    expect(needsJoinToken(robot)).toBe(false);
    expect(decide(robot, { joinToken: undefined }).status?.phase).toBe("Online");
  });

  it("is denied for an object whose name is not the robot's id", () => {
    const robot = robotOf("r", { spec: { robotId: "other", approved: true }, status: seen });
    expect(conditionOf(decide(robot), "Approved")?.reason).toBe("NameMismatch");
  });
});

describe("presence of a Robot", () => {
  const online = (status: Robot["status"]) =>
    robotOf("r", { spec: { approved: true }, status: { phase: "Online", ...seen, ...status } });

  it("lasts while heartbeats arrive and is checked again when they are overdue (B11)", () => {
    const decision = decide(online({ lastHeartbeatTime: after(60_000) }), { now: t0 + 80_000 });
    expect(decision.status?.phase).toBe("Online");
    expect(decision.requeueAfterMs).toBe(heartbeatTimeoutMs - 20_000);
  });

  it("ends after 90 seconds without a heartbeat", () => {
    const at = t0 + heartbeatTimeoutMs;
    expect(decide(online({}), { now: at - 1 }).status?.phase).toBe("Online");
    const decision = decide(online({}), { now: at });
    expect(decision.status).toMatchObject({
      phase: "Offline",
      message: "no heartbeat for 90 seconds, last one at 2026-01-01T00:00:00.000Z",
    });
    expect(decision.event).toMatchObject({ type: "Warning", reason: "Offline" });
    expect(decision.requeueAfterMs).toBeUndefined();
  });

  it("lasts longer if heartbeats are recorded rarely", () => {
    const robot = online({ heartbeatAccuracySeconds: 300 });
    expect(decide(robot, { now: t0 + 389_999 }).status?.phase).toBe("Online");
    expect(decide(robot, { now: t0 + 390_000 }).status?.phase).toBe("Offline");
  });

  it("ends when the broker reports a lost connection", () => {
    expect(decide(online({ connected: false })).status?.phase).toBe("Offline");
  });

  it("does not end because this manager was absent (F19)", () => {
    const tenMinutes = 600_000;
    const robot = online({});
    expect(decide(robot, { watchedSince: t0 + tenMinutes, now: t0 + tenMinutes }).status?.phase).toBe("Online");
    expect(decide(robot, { watchedSince: t0 + tenMinutes, now: t0 + tenMinutes + heartbeatTimeoutMs }).status?.phase).toBe(
      "Offline",
    );
  });

  it("does not begin because this manager started", () => {
    const robot = robotOf("r", { spec: { approved: true }, status: { ...seen, phase: "Offline" } });
    expect(decide(robot, { watchedSince: t0 + 600_000, now: t0 + 600_000 }).status?.phase).toBe("Offline");
  });

  it("is pending for an approved robot that never registered", () => {
    expect(decide(robotOf("r", { spec: { approved: true }, status: {} })).status?.phase).toBe("Pending");
  });
});
