import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { decideCredentials } from "./credential-decision.ts";
import type { StoredPassword } from "./publication.ts";
import { sendCredentials } from "./send-credentials.ts";
import type { CredentialState } from "./credential-state.ts";

const hashOf = (password: string): string => createHash("sha256").update(password).digest("hex");
const graceMs = 1_000;
const newId = "own";
const createVerifier = (password: string): string => `verifier of ${password}`;
const reports = (...sequences: readonly (number | undefined)[]) =>
  sequences.map((sequence) => (sequence === undefined ? undefined : { id: newId, sequence }));

/** Secrets, Pods and a controller that stops after some actions, as if it had crashed. */
class World {
  state: CredentialState | undefined;
  now = 0;
  readonly secrets = new Map<string, StoredPassword>([["default", { password: "first" }]]);
  readonly users = new Map<string, readonly string[]>([["default", []]]);
  readonly pods = [0, 1, 2].map((index) => ({
    name: `pod-${index}`,
    reported: { id: "", sequence: 0 },
    hashes: new Map([["default", [hashOf("first")]]]),
    /** Password at other Pods. */
    password: "first",
  }));
  actions = 0;
  /** What clients may still use, with the end of its validity. */
  readonly published = new Map<string, number>([["first", Number.POSITIVE_INFINITY]]);

  /** Acts until nothing is left to do, or until `limit` actions. Resolves to whether it has settled. */
  async run(limit = Number.POSITIVE_INFINITY): Promise<boolean> {
    for (;;) {
      if (this.actions >= limit) return false;
      const { state, users, secrets, now } = this;
      const step = decideCredentials({
        state,
        users,
        secrets,
        graceMs,
        now,
        pods: this.pods.map(({ reported }) => reported),
        newId,
        createVerifier,
      });
      if (step.kind === "wait") return true;
      if (step.kind === "record") {
        this.state = step.state;
        this.#act();
      } else if (step.kind === "publish") {
        for (const { user } of step.users) {
          const password = secrets.get(user)?.nextPassword ?? "";
          const old = secrets.get(user)?.password ?? "";
          secrets.set(user, { password });
          this.published.set(old, now + graceMs).set(password, Number.POSITIVE_INFINITY);
          this.#act();
        }
      } else await this.#send(limit);
    }
  }

  rotate(next: string): void {
    const password = this.secrets.get("default")?.password ?? "";
    this.secrets.set("default", { password, nextPassword: next });
  }

  async #send(limit: number): Promise<void> {
    const { state, pods } = this;
    if (state === undefined) throw new Error("sends before it records");
    const targets = pods.map(({ name, reported }, index) => ({
      ...{ name, reported, ip: String(index), isPrimary: index === 0, isUnsupported: false },
    }));
    const call: Parameters<typeof sendCredentials>[2]["agents"]["call"] = async (ip, _access, request) => {
      const pod = pods[Number(ip)];
      if (request.method !== "SetCredentials" || pod === undefined || this.actions >= limit)
        return { kind: "unreachable", message: "crashed" };
      pod.reported = { id: request.id, sequence: request.sequence };
      pod.password = request.password;
      pod.hashes.clear();
      for (const user of request.users) pod.hashes.set(user.name, [...user.passwordHashes]);
      this.#act();
      return { kind: "done" };
    };
    await sendCredentials(targets, state, {
      agents: { call },
      access: { token: "" },
      password: this.secrets.get("default")?.password ?? "",
    });
  }

  /** After every action, each Pod accepts what clients and other Pods may use. */
  #act(): void {
    this.actions += 1;
    for (const { name, hashes } of this.pods) {
      const accepted = hashes.get("default") ?? [];
      for (const [password, until] of this.published)
        if (until > this.now)
          expect(accepted, `${name} accepts ${password} after ${this.actions} actions`).toContain(hashOf(password));
      for (const peer of this.pods)
        expect(accepted, `${name} accepts the password of ${peer.name}`).toContain(hashOf(peer.password));
    }
  }
}

async function settledWorld(): Promise<World> {
  const world = new World();
  await world.run();
  return world;
}

describe("the rotation of a password", () => {
  it("keeps clients with either password able to log in, wherever the controller crashes", async () => {
    const whole = await settledWorld();
    const first = whole.actions;
    whole.rotate("second");
    await whole.run();
    expect(whole.secrets.get("default")).toEqual({ password: "second" });
    expect(whole.actions - first).toBeGreaterThan(8);
    for (let at = first; at <= whole.actions; at++) {
      const world = await settledWorld();
      world.rotate("second");
      await world.run(at);
      expect(await world.run()).toBe(true);
      expect(world.pods.map(({ password }) => password)).toEqual(["second", "second", "second"]);
      expect(world.pods[2]?.hashes.get("default")).toEqual([hashOf("second"), hashOf("first")]);
    }
  });

  it("ends the previous password everywhere after the grace period", async () => {
    const world = await settledWorld();
    world.rotate("second");
    await world.run();
    world.now = graceMs - 1;
    await world.run();
    expect(world.pods[0]?.hashes.get("default")).toHaveLength(2);
    world.now = graceMs;
    await world.run();
    expect(world.pods.map(({ hashes }) => hashes.get("default"))).toEqual([
      [hashOf("second")],
      [hashOf("second")],
      [hashOf("second")],
    ]);
  });

  it("keeps the previous password of a Secret that a user has changed, and several ones within a grace period", async () => {
    const world = await settledWorld();
    world.rotate("second");
    await world.run();
    world.now = 500;
    world.rotate("third");
    await world.run();
    expect(world.pods[1]?.hashes.get("default")).toEqual(["third", "second", "first"].map(hashOf));
    world.now = graceMs;
    await world.run();
    expect(world.pods[1]?.hashes.get("default")).toEqual(["third", "second"].map(hashOf));
    world.published.clear();
    world.secrets.set("default", { password: "edited" });
    world.state = { ...(world.state as CredentialState) };
    expect(
      decideCredentials({
        state: world.state,
        users: world.users,
        secrets: world.secrets,
        graceMs,
        now: world.now,
        pods: [],
        newId,
        createVerifier,
      }),
    ).toMatchObject({
      kind: "record",
      state: { users: { default: { current: hashOf("edited"), previous: [{ hash: hashOf("third") }, {}] } } },
    });
  });

  it("keeps the previous password, even without a grace period, until all Pods have the new one", async () => {
    const { state, users } = await settledWorld();
    const secrets = new Map([["default", { password: "second" }]]);
    const observed = { users, secrets, graceMs: 0, now: 0, newId, createVerifier };
    const changed = decideCredentials({ ...observed, state, pods: reports(1, 1) });
    if (changed.kind !== "record") throw new Error(changed.kind);
    const { default: user } = changed.state.users;
    expect(user).toMatchObject({ current: hashOf("second"), previous: [{ hash: hashOf("first") }] });
    const late = { ...observed, now: 10 };
    expect(decideCredentials({ ...late, state: changed.state, pods: reports(2, undefined) })).toEqual({ kind: "send" });
    const applied = decideCredentials({ ...late, state: changed.state, pods: reports(2, 2) });
    if (applied.kind !== "record") throw new Error(applied.kind);
    expect(applied.state).toMatchObject({ applied: 2, users: { default: user } });
    expect(decideCredentials({ ...late, state: applied.state, pods: reports(2, 2) })).toMatchObject({
      kind: "record",
      state: { sequence: 3, users: { default: { previous: [] } } },
    });
  });

  it("is not published while a Pod has not confirmed it", async () => {
    const { state, users, secrets } = await settledWorld();
    const next = new Map(secrets).set("default", { password: "first", nextPassword: "second" });
    const observed = { users, secrets: next, graceMs, now: 0, newId, createVerifier };
    const recorded = decideCredentials({ ...observed, state, pods: reports(1, 1, undefined) });
    if (recorded.kind !== "record") throw new Error(recorded.kind);
    for (const pods of [
      [2, 2, undefined],
      [2, 1, 2],
    ])
      expect(decideCredentials({ ...observed, state: recorded.state, pods: reports(...pods) })).toEqual({ kind: "send" });
  });
});

describe("Pods with the credentials of another state", () => {
  it("get the users of an App that was created again with their volumes", async () => {
    const world = new World();
    for (const pod of world.pods) pod.reported = { id: "earlier", sequence: 7 };
    world.users.set("reader", ["+@read"]);
    world.secrets.set("reader", { password: "r" });
    expect(await world.run()).toBe(true);
    expect(world.pods.map(({ reported }) => reported)).toEqual(reports(8, 8, 8));
    expect(world.pods[2]?.hashes.get("reader")).toEqual([hashOf("r")]);
    const { state, users, secrets } = world;
    const late = [...reports(8, 8), { id: "earlier", sequence: 99 }];
    expect(decideCredentials({ state, users, secrets, graceMs, now: 0, newId, createVerifier, pods: late })).toEqual({
      kind: "send",
    });
  });

  it("get the users of a Secret that was restored from an earlier copy, under a new id", async () => {
    const { state, users, secrets } = await settledWorld();
    const observed = { state, users, secrets, graceMs, now: 0, newId: "restored", createVerifier };
    const step = decideCredentials({ ...observed, pods: reports(4, 3) });
    if (step.kind !== "record") throw new Error(step.kind);
    expect(step.state).toMatchObject({ id: "restored", sequence: 5, applied: 0 });
    expect(decideCredentials({ ...observed, state: step.state, pods: reports(4, 3) })).toEqual({ kind: "send" });
  });

  it("are recognized by agents and states of an earlier release", async () => {
    const { state, users, secrets } = await settledWorld();
    const { id: _, ...earlier } = state ?? { sequence: 0, applied: 0, users: {} };
    const observed = { users, secrets, graceMs, now: 0, newId: "upgraded", createVerifier };
    const step = decideCredentials({ ...observed, state: earlier, pods: [{ sequence: 1 }] });
    if (step.kind !== "record") throw new Error(step.kind);
    expect(step.state).toMatchObject({ id: "upgraded", sequence: 2 });
    const sent = { ...observed, state: step.state };
    expect(decideCredentials({ ...sent, pods: [{ sequence: 1 }] })).toEqual({ kind: "send" });
    expect(decideCredentials({ ...sent, pods: [{ sequence: 2 }] })).toMatchObject({ kind: "record", state: { applied: 2 } });
  });
});

describe("users", () => {
  it("are recorded with their rules, kept while their Secret is missing, and removed with the spec", async () => {
    const world = await settledWorld();
    world.users.set("reader", ["+@read"]);
    await world.run();
    expect(world.state?.users).not.toHaveProperty("reader");
    world.secrets.set("reader", { password: "r" });
    await world.run();
    expect(world.pods[1]?.hashes.get("reader")).toEqual([hashOf("r")]);
    world.secrets.delete("reader");
    world.users.set("reader", ["+@read", "~app:*"]);
    await world.run();
    expect(world.state?.users["reader"]).toMatchObject({ rules: ["+@read", "~app:*"], current: hashOf("r") });
    world.users.delete("reader");
    await world.run();
    expect([...(world.pods[0]?.hashes.keys() ?? [])]).toEqual(["default"]);
  });
});
