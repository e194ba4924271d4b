import { X509Certificate } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  decideCertificates,
  type CertificateFacts,
  type CertificateStep,
  fulfils,
  type RotationRequest,
} from "./certificate-decision.ts";
import { bundleOf, coversHosts, hasValidLeaves, parseCertificateState, textsOf } from "./certificate-state.ts";
import { takeStep } from "./issue-certificates.ts";
import { recoverState } from "./recover-certificates.ts";

const dayMs = 86_400_000;
const graceMs = dayMs;

/** Authorities are numbers, and a certificate is the number of its authority. */
interface Published {
  readonly trusted: readonly number[];
  readonly signer: number;
}

/** An App with Pods that get certificates late, and clients that get authorities within the grace period. */
class World {
  now = 0;
  request: RotationRequest | undefined;
  readonly steps: CertificateStep["kind"][] = [];
  #facts: CertificateFacts | undefined;
  #published: Published = { trusted: [], signer: -1 };
  #publishedMs = 0;
  #leavesExpireMs = 0;
  /** Certificates of a lost authority would have expired before all Pods and clients trusted the next one. */
  #isForced = false;
  #authorities = -1;
  readonly pods: Published[] = [];
  client: Published = { trusted: [], signer: -1 };

  get published(): Published {
    return this.#published;
  }

  /** Takes at most one step, as a controller that crashes after it. */
  decide(): void {
    const isApplied = this.pods.every((pod) => pod === this.#published);
    const isRecoverable = this.#facts === undefined && this.#authorities >= 0;
    const step = decideCertificates({
      ...{ facts: this.#facts, request: this.request, isApplied, isRecoverable, graceMs, now: this.now },
    });
    if (step.kind === "wait") return;
    this.steps.push(step.kind);
    const { trusted, signer } = this.#published;
    const before = this.#facts;
    const base = before ?? {
      changedMs: 0,
      hasNextAuthority: false,
      hasPreviousAuthority: false,
      rotated: undefined,
      authorityExpiresMs: 0,
      isKeyLost: false,
    };
    const leaves = { leavesExpireMs: this.now + 90 * dayMs, areLeavesValid: true };
    const fulfilled = this.request !== undefined && fulfils(step.kind, this.request) ? this.request.id : base.rotated;
    switch (step.kind) {
      case "create":
        this.#authorities += 1;
        this.#facts = { ...base, ...leaves, authorityExpiresMs: this.now + 3_650 * dayMs, rotated: fulfilled };
        return this.#publish({ trusted: [this.#authorities], signer: this.#authorities });
      case "issue":
        this.#facts = { ...base, ...leaves, rotated: fulfilled };
        return this.#publish({ trusted, signer });
      case "recover":
      case "stage":
        this.#authorities += 1;
        this.#facts = {
          ...base,
          // The published ones.
          ...{ leavesExpireMs: this.#leavesExpireMs, authorityExpiresMs: this.now + 3_650 * dayMs },
          ...before,
          isKeyLost: step.kind === "recover",
          hasNextAuthority: true,
          changedMs: this.now,
          rotated: fulfilled,
        } as CertificateFacts;
        return this.#publish({ trusted: [...trusted, this.#authorities], signer });
      case "promote":
        this.#isForced ||= before?.isKeyLost === true && this.now >= before.leavesExpireMs - dayMs;
        this.#facts = {
          ...base,
          ...leaves,
          isKeyLost: false,
          authorityExpiresMs: this.now + 3_650 * dayMs,
          hasNextAuthority: false,
          hasPreviousAuthority: true,
          changedMs: this.now,
        };
        return this.#publish({ trusted, signer: this.#authorities });
      case "drop":
        this.#facts = { ...base, leavesExpireMs: 0, ...before, hasPreviousAuthority: false } as CertificateFacts;
        return this.#publish({ trusted: [this.#authorities], signer });
    }
  }

  /** The Secret with the authority is deleted. What is published stays. */
  lose(): void {
    if (this.#facts !== undefined) this.#leavesExpireMs = this.#facts.leavesExpireMs;
    this.#facts = undefined;
  }

  #publish(next: Published): void {
    this.#published = next;
    this.#publishedMs = this.now;
  }

  /** A client that loads the authorities within the grace period. */
  pass(ms: number): void {
    this.now += ms;
    if (this.now - this.#publishedMs >= graceMs) this.client = this.#published;
  }

  check(): void {
    if (this.#isForced) return;
    for (const server of this.pods)
      for (const { trusted } of [this.client, ...this.pods])
        expect(
          trusted.length === 0 || trusted.includes(server.signer),
          JSON.stringify([this.steps, this.client, this.pods]),
        ).toBe(true);
  }
}

describe("certificates of an App", () => {
  it("can be verified by all clients and Pods at any time, however late Pods get them and wherever the controller stops", () => {
    const action = fc.oneof(
      fc.constant({ kind: "decide" as const }),
      fc.record({ kind: fc.constant("pass" as const), days: fc.integer({ min: 0, max: 200 }) }),
      fc.record({ kind: fc.constant("mount" as const), pod: fc.integer({ min: 0, max: 2 }) }),
      fc.record({ kind: fc.constant("rotate" as const), authority: fc.boolean() }),
      fc.constant({ kind: "lose" as const }),
    );
    fc.assert(
      fc.property(fc.array(action, { maxLength: 80 }), (actions) => {
        const world = new World();
        world.decide();
        world.pods.push(world.published, world.published, world.published);
        world.client = world.published;
        for (const [index, each] of actions.entries()) {
          if (each.kind === "decide") world.decide();
          else if (each.kind === "mount") world.pods[each.pod] = world.published;
          else if (each.kind === "lose") world.lose();
          else if (each.kind === "rotate") world.request = { id: String(index), authority: each.authority };
          // Clients load authorities before the controller acts after a pause.
          else world.pass(each.days * dayMs);
          world.check();
        }
      }),
      { numRuns: 300 },
    );
  });

  it("replaces the authority in three steps, each after the grace period and when all Pods have the previous one", () => {
    const world = new World();
    world.decide();
    world.pods.push(world.published);
    world.client = world.published;
    world.request = { id: "1", authority: true };
    for (let turn = 0; turn < 3; turn++) world.decide();
    expect(world.steps).toEqual(["create", "stage"]);
    world.pass(graceMs);
    world.decide();
    expect(world.steps).toHaveLength(2);
    for (const step of ["promote", "drop"]) {
      world.pods[0] = world.published;
      world.decide();
      expect(world.steps.at(-1)).toBe(step);
      world.decide();
      expect(world.steps.at(-1)).toBe(step);
      world.pass(graceMs);
      world.decide();
      expect(world.steps.at(-1)).toBe(step);
    }
    expect(world.published.trusted).toEqual([1]);
  });

  it("stay trusted when the Secret with the authority is deleted, until the next authority takes over in stages", () => {
    const world = new World();
    world.decide();
    world.pods.push(world.published);
    world.client = world.published;
    world.request = { id: "1", authority: true };
    world.lose();
    for (let turn = 0; turn < 3; turn++) world.decide();
    expect(world.steps).toEqual(["create", "recover"]);
    expect(world.published).toEqual({ trusted: [0, 1], signer: 0 });
    world.pods[0] = world.published;
    world.pass(graceMs);
    world.decide();
    expect(world.published).toEqual({ trusted: [0, 1], signer: 1 });
    world.pods[0] = world.published;
    world.pass(graceMs);
    for (let turn = 0; turn < 3; turn++) world.decide();
    expect(world.steps).toEqual(["create", "recover", "promote", "drop"]);
    expect(world.published.trusted).toEqual([1]);
  });

  it("whose authority was lost are replaced before they expire, although a Pod has not reported", () => {
    const world = new World();
    world.decide();
    world.pods.push(world.published);
    world.lose();
    world.decide();
    world.pass(88 * dayMs);
    world.decide();
    expect(world.steps).toEqual(["create", "recover"]);
    world.pass(dayMs);
    world.decide();
    expect(world.steps).toEqual(["create", "recover", "promote"]);
  });

  it("fulfil every request when they are created: an old request is not repeated", () => {
    for (const authority of [false, true]) {
      const world = new World();
      world.request = { id: "1", authority };
      for (let turn = 0; turn < 3; turn++) world.decide();
      expect(world.steps).toEqual(["create"]);
    }
  });

  it("are recovered from what is published, without the key of their authority", async () => {
    const now = Date.UTC(2026, 0, 1);
    const subjects = { app: "cache", agent: "cache.default.agents.middleware.io", hosts: ["10.0.0.1"] };
    const options = { now, rotated: undefined };
    const created = await takeStep("create", undefined, subjects, options);
    const staged = await takeStep("stage", created, subjects, options);
    for (const [state, others] of [
      [created, 0],
      [staged, 1],
      [await takeStep("promote", staged, subjects, options), 1],
    ] as const) {
      const published = {
        agent: { authorities: bundleOf(state), ...state.agent },
        program: { authorities: "", ...state.program },
      };
      const recovered = recoverState(published, now);
      expect(recovered).toMatchObject({ agent: state.agent, program: state.program, authority: { key: "" } });
      const next = await takeStep("recover", recovered, subjects, options);
      expect(
        bundleOf(next).startsWith(
          bundleOf({ ...state, ...{ nextAuthority: undefined, previousAuthority: undefined } } as never),
        ),
      ).toBe(true);
      expect(bundleOf(next).match(/BEGIN/g)).toHaveLength(2 + others);
      const texts = Object.entries(textsOf(next)).flatMap(([key, text]) => (text === null ? [] : [[key, text] as const]));
      expect(parseCertificateState(Object.fromEntries(texts))).toEqual(next);
      expect(hasValidLeaves(next, now)).toBe(true);
      const promoted = await takeStep("promote", next, subjects, options);
      expect([promoted.authority, hasValidLeaves(promoted, now)]).toEqual([next.nextAuthority, true]);
      expect(recoverState({ ...published, agent: { ...published.agent, authorities: "" } }, now)).toBeUndefined();
    }
  });

  it("are issued again before they expire, and on request once", () => {
    const world = new World();
    world.decide();
    world.decide();
    world.request = { id: "1", authority: false };
    world.decide();
    world.decide();
    expect(world.steps).toEqual(["create", "issue"]);
    world.pass(60 * dayMs);
    world.decide();
    expect(world.steps).toEqual(["create", "issue", "issue"]);
  });

  it("are recorded without loss, cover all hosts, and are signed by the authority of each step", async () => {
    const now = Date.UTC(2026, 0, 1);
    const subjects = {
      app: "cache",
      agent: "cache.default.agents.middleware.io",
      hosts: ["cache.default.svc", "10.0.0.1", "fd00::1"],
    };
    const options = { now, rotated: "1" };
    const created = await takeStep("create", undefined, subjects, options);
    const staged = await takeStep("stage", created, subjects, options);
    const promoted = await takeStep("promote", staged, subjects, options);
    const dropped = await takeStep("drop", promoted, subjects, options);
    for (const state of [created, staged, promoted, dropped]) {
      const texts = Object.entries(textsOf(state)).flatMap(([key, text]) => (text === null ? [] : [[key, text] as const]));
      expect(parseCertificateState(Object.fromEntries(texts))).toEqual(state);
      expect([hasValidLeaves(state, now), hasValidLeaves(state, now + 91 * dayMs)]).toEqual([true, false]);
      expect([coversHosts(state.program, subjects.hosts), coversHosts(state.program, ["10.0.0.2"])]).toEqual([true, false]);
      expect(new X509Certificate(state.agent.certificate).subjectAltName).toBe(`DNS:${subjects.agent}`);
    }
    expect([created, staged, promoted, dropped].map((state) => bundleOf(state).match(/BEGIN/g)?.length)).toEqual([1, 2, 2, 1]);
    expect(dropped.authority).toEqual(staged.nextAuthority);
    expect(dropped.agent).toEqual(promoted.agent);
    expect(parseCertificateState({})).toBeUndefined();
  });
});
