import { describe, expect, it } from "vitest";
import { authenticateRobot } from "./robot-authentication.ts";
import { equalsSecret, sha256Hex } from "./secret.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const policy = {
  isJoinToken: equalsSecret("join"),
  identityOf: (robotId: string) =>
    robotId === "keyed" || robotId === "revoked"
      ? { keySha256: sha256Hex("key"), isRevoked: robotId === "revoked" }
      : undefined,
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

  it.each([
    ["its key", "keyed", { keySha256: sha256Hex("key"), isExpired: false }, { kind: "accepted", identity: "key" }],
    ["no certificate", "keyed", undefined, { reason: "WrongKey" }],
    ["another key", "keyed", { keySha256: sha256Hex("other"), isExpired: false }, { reason: "WrongKey" }],
    ["an expired certificate", "keyed", { keySha256: sha256Hex("key"), isExpired: true }, { reason: "CertificateExpired" }],
    ["a revoked key", "revoked", { keySha256: sha256Hex("key"), isExpired: false }, { reason: "KeyRevoked" }],
    ["a certificate of a deleted robot", "new", { keySha256: sha256Hex("key"), isExpired: false }, { reason: "WrongKey" }],
  ] as const)("judges a robot with %s, regardless of its password", (_, robotId, certificate, expected) => {
    const password = new TextEncoder().encode("join");
    const result = authenticateRobot({ robotId, password, ...(certificate === undefined ? {} : { certificate }) }, policy);
    expect(result).toMatchObject(expected);
  });

  it("admits original agents, which present nothing, only if they are allowed and the robot is not bound", () => {
    expect(attempt("new")).toMatchObject({ kind: "rejected", reason: "V1AgentNotAllowed" });
    expect(attempt("new", undefined, { allowsV1Agents: true })).toEqual({ kind: "accepted", identity: "none" });
    expect(attempt("bound", undefined, { allowsV1Agents: true })).toMatchObject({ kind: "rejected" });
  });
});
