import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import type { StoredPassword } from "./publication.ts";
import { acceptedHashes, type CredentialState, type ReportedCredentials } from "./credential-state.ts";
import { decideTokens, type TokenPod } from "./reconcile-tokens.ts";

const graceMs = 1_000;
const hashOf = (text: string): string => createHash("sha256").update(text).digest("hex");
const pod = (name: string, tokens: ReportedCredentials | undefined): TokenPod => ({
  ...{ name, ip: "10.0.0.1", tokens, cannotRotate: false },
});

describe("the rotation of the token of the agents", () => {
  it("records nothing before the first one", () => {
    const pods = [pod("p-0", { id: "", sequence: 0 })];
    const observed = { state: undefined, token: { password: "first" }, pods, graceMs, now: 0, newId: "id" };
    expect(decideTokens(observed)).toEqual({ kind: "wait" });
  });

  it("publishes a token when all agents accept it, and ends the previous one after the grace period", () => {
    let state: CredentialState | undefined;
    let token: StoredPassword = { password: "first", nextPassword: "second" };
    let now = 0;
    const reports = [0, 1].map(() => ({ id: "", sequence: 0 }));
    const accepted: (readonly string[])[] = [[hashOf("first")], [hashOf("first")]];
    const settle = (): void => {
      for (;;) {
        const pods = reports.map((report, index) => pod(`p-${index}`, report));
        const step = decideTokens({ state, token, pods, graceMs, now, newId: "id" });
        if (step.kind === "wait") return;
        if (step.kind === "record") state = step.state;
        else if (step.kind === "publish") {
          token = { password: token.nextPassword ?? "" };
          for (const hashes of accepted) expect(hashes).toContain(hashOf("second"));
        } else {
          const late = reports.findIndex(({ sequence }) => sequence !== state?.sequence);
          reports[late] = { id: "id", sequence: state?.sequence ?? 0 };
          accepted[late] = state?.users["default"] === undefined ? [] : acceptedHashes(state.users["default"]);
        }
        // Controllers and other agents use the published token at any time.
        for (const hashes of accepted) expect(hashes).toContain(hashOf(token.password));
      }
    };
    settle();
    expect(token).toEqual({ password: "second" });
    expect(accepted[1]).toEqual([hashOf("second"), hashOf("first")]);
    now = graceMs;
    settle();
    expect(accepted).toEqual([[hashOf("second")], [hashOf("second")]]);
  });

  it("waits for an agent that does not respond", () => {
    const token = { password: "first", nextPassword: "second" };
    const observed = { token, graceMs, now: 0, newId: "id" };
    const recorded = decideTokens({ ...observed, state: undefined, pods: [] });
    if (recorded.kind !== "record") throw new Error(recorded.kind);
    const pods = [pod("p-0", { id: "id", sequence: 1 }), pod("p-1", undefined)];
    expect(decideTokens({ ...observed, state: recorded.state, pods })).toEqual({ kind: "send" });
  });
});
