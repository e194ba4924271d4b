import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { type CredentialObservation, decideCredentials } from "./credential-decision.ts";
import type { StoredPassword } from "./publication.ts";
import { acceptedLogins, type CredentialState } from "./credential-state.ts";

const graceMs = 1_000;
const hashOf = (password: string): string => createHash("sha256").update(password).digest("hex");

/** A program with one password per login, whose Pods accept everything immediately. */
class World {
  state: CredentialState | undefined;
  secret: StoredPassword = { password: "first" };
  now = 0;
  verifiers = 0;
  /** Logins that were accepted, and what the Secret said, after each step. */
  readonly steps: string[] = [];

  observe(isApplied = true): CredentialObservation {
    const { state, secret, now } = this;
    return {
      ...{ state, now, graceMs, newId: "id", defaultLogin: "postgres" },
      users: new Map([["default", []]]),
      secrets: new Map([["default", secret]]),
      pods: state === undefined ? [] : [{ id: "id", sequence: isApplied ? state.sequence : state.sequence - 1 }],
      createVerifier: (password) => `${password}#${(this.verifiers += 1)}`,
    };
  }

  /** Acts until nothing is left to do. */
  settle(): void {
    for (;;) {
      const step = decideCredentials(this.observe());
      if (step.kind === "wait" || step.kind === "send") return;
      if (step.kind === "record") this.state = step.state;
      else {
        const { password, nextPassword } = this.secret;
        const login = step.users[0]?.login;
        this.secret = { password: nextPassword ?? password, ...(login === undefined ? {} : { login }) };
      }
      this.steps.push(`${this.accepted()}; published ${this.secret.login ?? "none"} ${this.secret.password}`);
    }
  }

  accepted(): string {
    const user = this.state?.users["default"];
    const logins = (user && acceptedLogins(user)) ?? [];
    return logins.map(({ name, verifier }) => `${name}=${verifier.split("#")[0] ?? ""}`).join(" ");
  }

  rotate(nextPassword: string): void {
    this.secret = { ...this.secret, nextPassword };
    this.settle();
  }
}

function settledWorld(): World {
  const world = new World();
  world.settle();
  world.steps.length = 0;
  return world;
}

describe("the rotation of a password of a program with one password per login", () => {
  it("publishes the second login once it is accepted, and keeps the first one for the grace period", () => {
    const world = settledWorld();
    expect([world.accepted(), world.secret]).toEqual(["postgres=first", { password: "first", login: "postgres" }]);
    world.rotate("second");
    expect(world.steps[0]).toBe("postgres=first postgres_b=second; published postgres first");
    expect(world.steps.at(-1)).toBe("postgres_b=second postgres=first; published postgres_b second");
    world.now = graceMs;
    world.settle();
    expect([world.accepted(), world.secret]).toEqual(["postgres_b=second", { password: "second", login: "postgres_b" }]);
    world.rotate("third");
    expect(world.secret).toEqual({ password: "third", login: "postgres" });
    // Each password has one verifier throughout.
    expect(world.verifiers).toBe(3);
  });

  it("waits until the previous password, which has the other login, has ended", () => {
    const world = settledWorld();
    world.rotate("second");
    world.rotate("third");
    expect([world.accepted(), world.secret.password]).toEqual(["postgres_b=second postgres=first", "second"]);
    expect(decideCredentials(world.observe())).toEqual({ kind: "wait", untilMs: graceMs });
    world.now = graceMs;
    world.settle();
    expect([world.accepted(), world.secret]).toEqual([
      "postgres=third postgres_b=second",
      { password: "third", login: "postgres" },
    ]);
  });

  it("gives a password that was changed in the Secret the other login, and publishes that", () => {
    const world = settledWorld();
    world.secret = { ...world.secret, password: "edited" };
    world.settle();
    expect([world.accepted(), world.secret]).toEqual([
      "postgres_b=edited postgres=first",
      { password: "edited", login: "postgres_b" },
    ]);
  });

  it("returns to the previous password, which is still accepted", () => {
    const world = settledWorld();
    world.rotate("second");
    world.rotate("first");
    expect([world.accepted(), world.secret]).toEqual([
      "postgres=first postgres_b=second",
      { password: "first", login: "postgres" },
    ]);
  });

  it("continues with the login of the Secret if the recorded state was lost", () => {
    const world = settledWorld();
    world.rotate("second");
    world.state = undefined;
    world.settle();
    expect(world.state).toMatchObject({ users: { default: { logins: { [hashOf("second")]: { name: "postgres_b" } } } } });
  });
});

describe("a Secret that two users share", () => {
  it("is written for one of them, and the other one is reported", () => {
    let state: CredentialState | undefined;
    let secret: StoredPassword = { password: "first", isProvided: true };
    let writes = 0;
    for (; writes < 20; writes += 1) {
      const step = decideCredentials({
        ...{ state, now: 0, graceMs, newId: "id", defaultLogin: "postgres" },
        users: new Map(["a", "b"].map((name) => [name, []])),
        secrets: new Map(["a", "b"].map((name) => [name, secret])),
        pods: state === undefined ? [] : [{ id: "id", sequence: state.sequence }],
        createVerifier: (password) => password,
      });
      if (step.kind === "record") state = step.state;
      else if (step.kind !== "publish") break;
      // Of writes with the same version of the Secret, the first one succeeds.
      else secret = { ...secret, login: step.users[0]?.login ?? "" };
    }
    expect(writes).toBeLessThan(20);
    expect([secret.login, state?.unpublished]).toEqual(["a", { b: expect.stringContaining('username "a"') }]);
  });
});
