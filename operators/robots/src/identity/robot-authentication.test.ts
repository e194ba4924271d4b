import { describe, expect, it } from "vitest";
import { authenticateRobot } from "./robot-authentication.ts";
import { equalsSecret, sha256Hex } from "./secret.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const policy = {
  isJoinToken: equalsSecret("join"),
  credentialOf: (robotId: string) => (robotId === "bound" ? sha256Hex("secret of bound") : undefined),
  allowsV1Agents: false,
};
const attempt = (robotId: string, password?: string, rest: Partial<typeof policy> = {}) =>
  authenticateRobot({ robotId, ...(password === undefined ? {} : { password: bytes(password) }) }, { ...policy, ...rest });

describe("authenticateRobot", () => {
  it("admits a new robot with the join token only", () => {
    expect(attempt("new", "join")).toEqual({ kind: "accepted", identity: "join-token" });
    expect(attempt("new", "wrong")).toMatchObject({ kind: "rejected", reason: "WrongJoinToken" });
    expect(attempt("new", "secret of bound")).toMatchObject({ kind: "rejected", reason: "WrongJoinToken" });
  });

  it("admits a robot that has joined with its own credential only, so that the join token cannot impersonate it", () => {
    expect(attempt("bound", "secret of bound")).toEqual({ kind: "accepted", identity: "credential" });
    for (const password of ["join", "wrong", ""]) {
      expect(attempt("bound", password)).toMatchObject({ kind: "rejected", reason: "WrongCredential" });
    }
  });

  it("admits original agents, which present nothing, only if they are allowed and the robot is not bound", () => {
    expect(attempt("new")).toMatchObject({ kind: "rejected", reason: "V1AgentNotAllowed" });
    expect(attempt("new", undefined, { allowsV1Agents: true })).toEqual({ kind: "accepted", identity: "none" });
    expect(attempt("bound", undefined, { allowsV1Agents: true })).toMatchObject({ kind: "rejected" });
  });
});
