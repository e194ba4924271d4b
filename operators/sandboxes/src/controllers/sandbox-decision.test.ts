import { describe, expect, it } from "vitest";
import type { AgentStatus, SandboxStatus } from "../protocol/protocol.ts";
import { allocationAnnotation, cleanupFinalizer, startDeadlineAnnotation } from "../api/names.ts";
import type { Sandbox } from "../api/sandbox.ts";
import { decideSandbox } from "./sandbox-decision.ts";
import { type AgentView } from "./sandbox-steps.ts";

const now = Date.UTC(2026, 0, 1);
const id = "0".repeat(32);

function sandbox(
  status: Partial<NonNullable<Sandbox["status"]>> = {},
  spec: Partial<Sandbox["spec"]> = {},
  metadata: object = {},
): Sandbox {
  return {
    apiVersion: "sandbox.fast.io/v1alpha1",
    kind: "Sandbox",
    metadata: { name: "one", namespace: "default", uid: "uid-1", generation: 1, finalizers: [cleanupFinalizer], ...metadata },
    spec: { image: "host", poolRef: "pool", failurePolicy: "Manual", recoveryTimeoutSeconds: 60, ...spec },
    status,
  };
}

const ready = (...phases: readonly SandboxStatus["phase"][]): AgentView => ({
  kind: "ready",
  status: {
    agentId: "a",
    nodeName: "n",
    capacity: 5,
    allocated: phases.length,
    images: [],
    sandboxStatuses: phases.map((phase) => ({
      sandboxId: id,
      claimUid: "",
      claimName: "one",
      namespace: "default",
      phase,
      message: "",
      createdAt: 0,
      exitCode: 3,
      ports: [],
    })),
  } satisfies AgentStatus,
});
const running = { phase: "Running", assignedPod: "a", sandboxID: id, observedGeneration: 1 } as const;
const unreachable: AgentView = { kind: "unreachable" };
const gone: AgentView = { kind: "deleted" };
const step = (one: Sandbox, agent: AgentView = { kind: "none" }) => decideSandbox({ sandbox: one, agent, now }).step;
const deleted = { deletionTimestamp: "2026-01-01T00:00:00Z" };

describe("a Sandbox", () => {
  it("gets its finalizer first", () => {
    expect(step(sandbox({}, {}, { finalizers: [] })).kind).toBe("add-finalizer");
  });

  it("sets its expiry on the agent, and again only if it differs", () => {
    const expiresAtMs = now + 5000;
    const spec = { expireTime: new Date(expiresAtMs).toISOString() };
    const keeping = (kept: number | null | undefined): AgentView => {
      const agent = ready("running");
      if (agent.kind !== "ready") return agent;
      const sandboxStatuses = agent.status.sandboxStatuses.map((each) => ({
        ...each,
        ...(kept !== undefined && { expiresAtMs: kept }),
      }));
      return { ...agent, status: { ...agent.status, sandboxStatuses } };
    };
    expect(step(sandbox(running, spec), keeping(null))).toEqual({ kind: "set-expiry", sandboxId: id, expiresAtMs });
    expect(step(sandbox(running, spec), keeping(expiresAtMs)).kind).toBe("wait");
    expect(step(sandbox(running), keeping(expiresAtMs))).toEqual({ kind: "set-expiry", sandboxId: id, expiresAtMs: null });
    // An older agent leaves the expiry to the operator.
    expect(step(sandbox(running, spec), keeping(undefined)).kind).toBe("wait");
  });

  it("does not start after its caller's deadline, and is deleted on its agent if it might have", () => {
    const until = (ms: number) => ({ annotations: { [startDeadlineAnnotation]: new Date(now + ms).toISOString() } });
    expect(decideSandbox({ sandbox: sandbox({}, {}, until(700)), agent: { kind: "none" }, now })).toMatchObject({
      step: { kind: "place" },
      requeueAfterMs: 700,
    });
    const failed = step(sandbox({ phase: "Pending" }, {}, until(0)));
    expect(failed).toMatchObject({
      kind: "write",
      status: { phase: "Failed", message: expect.stringMatching(/deadline/) },
      releases: true,
    });
    const creating = { phase: "Creating", assignedPod: "a", sandboxID: id } as const;
    expect(step(sandbox(creating, {}, until(-1)), ready("running"))).toEqual({ kind: "delete", sandboxId: id });
    expect(step(sandbox(creating, {}, until(-1)), ready())).toMatchObject({ kind: "write", status: { phase: "Failed" } });
  });

  it("that was started in time may be restarted after its caller's deadline", () => {
    const metadata = { annotations: { [startDeadlineAnnotation]: "2025-12-31T00:00:00Z" } };
    const lost = step(sandbox(running, {}, { generation: 2 }), unreachable);
    const status = lost.kind === "write" ? lost.status : {};
    expect(status.firstStartTime).toBe("2026-01-01T00:00:00Z");
    expect(step(sandbox({ ...status, phase: "Pending", instance: 1 }, {}, metadata)).kind).toBe("place");
  });

  it("is assigned even if its expireTime is near (C7)", () => {
    const decision = decideSandbox({
      sandbox: sandbox({}, { expireTime: new Date(now + 5000).toISOString() }),
      agent: { kind: "none" },
      now,
    });
    expect(decision).toMatchObject({ step: { kind: "place" }, requeueAfterMs: 5000 });
  });

  it("uses the fast path's allocation once, and not after a restart (C4)", () => {
    const metadata = {
      annotations: { [allocationAnnotation]: JSON.stringify({ assignedPod: "a", assignedNode: "n", sandboxID: id }) },
    };
    expect(step(sandbox({}, {}, metadata))).toMatchObject({
      kind: "write",
      status: { phase: "Creating", assignedPod: "a", sandboxID: id },
    });
    expect(step(sandbox({ phase: "Pending", instance: 1 }, {}, metadata)).kind).toBe("place");
  });

  it.each(["Pending", "Creating", "Running", "Failed", "Lost", "Succeeded", "Expired", "Terminating"] as const)(
    "can be deleted when it is %s, once its agent has nothing of it (C6)",
    (phase) => {
      const one = sandbox({ ...running, phase }, {}, deleted);
      expect(step(one, ready("running")).kind).toBe(phase === "Terminating" ? "delete" : "write");
      expect(step(one, unreachable).kind).toBe(phase === "Terminating" ? "wait" : "write");
      expect(step(one, ready()).kind).toBe("remove-finalizer");
      expect(step(one, gone).kind).toBe("remove-finalizer");
    },
  );

  it("is not deleted again on an agent that is stopping it, but after 15 s in case the agent has forgotten that", () => {
    const one = sandbox({ ...running, phase: "Terminating" }, {}, deleted);
    const observation = { sandbox: one, agent: ready("terminating"), now };
    expect(decideSandbox(observation)).toEqual({ step: { kind: "wait" }, requeueAfterMs: 15_000 });
  });

  it("is deleted on its agent before it is Expired, and stays Expired", () => {
    const expired = { expireTime: new Date(now - 1).toISOString() };
    // Committed under the object's resourceVersion, then stopped.
    const committed = step(sandbox(running, expired), ready("running"));
    expect(committed).toMatchObject({ kind: "write", releases: false, status: { phase: "Terminating", sandboxID: id } });
    const status = committed.kind === "write" ? committed.status : {};
    expect(status.expiredTime).toBe("2026-01-01T00:00:00Z");
    expect(step(sandbox(status, expired), ready("running"))).toMatchObject({ kind: "delete", sandboxId: id });
    // A later expiry in the spec comes too late.
    const late = { expireTime: new Date(now + 60_000).toISOString() };
    expect(step(sandbox(status, late), ready("running"))).toMatchObject({ kind: "delete", sandboxId: id });
    expect(step(sandbox(status, late), ready())).toMatchObject({
      status: { phase: "Expired", message: "reached its expireTime" },
    });
    const written = step(sandbox(running, expired), ready());
    expect(written).toMatchObject({ kind: "write", releases: true, status: { phase: "Expired" } });
    expect(written.kind === "write" && "assignedPod" in written.status).toBe(false);
    expect(step(sandbox({ phase: "Expired" }, expired)).kind).toBe("wait");
    expect(step(sandbox({ phase: "Expired" }, {})).kind).toBe("wait");
  });

  it("counts expireTimeSeconds as Unix seconds and 0 as never", () => {
    expect(step(sandbox({ phase: "Pending" }, { expireTimeSeconds: now / 1000 - 1 })).kind).toBe("write");
    expect(step(sandbox({ phase: "Pending" }, { expireTimeSeconds: 0 })).kind).toBe("place");
  });

  it("is paused and resumed on its agent, and reports what the agent reports", () => {
    const paused = { state: "Paused" } as const;
    const frozen = ready("running");
    if (frozen.kind === "ready") Object.assign(frozen.status.sandboxStatuses[0] ?? {}, { paused: true, expiresAtMs: null });
    expect(step(sandbox(running, paused), ready("running"))).toEqual({ kind: "pause", sandboxId: id });
    const written = step(sandbox(running, paused), frozen);
    expect(written).toMatchObject({ kind: "write", status: { phase: "Paused", pausedTime: "2026-01-01T00:00:00Z" } });
    const status = written.kind === "write" ? written.status : {};
    expect(status.conditions).toMatchObject([{ type: "Ready", status: "False", reason: "Paused" }]);
    expect(step(sandbox(status, paused), frozen).kind).toBe("wait");
    const spec = { expireTime: new Date(now + 5000).toISOString(), maxAgeSeconds: 1 };
    const later = now + 3_600_000;
    const at = (one: Sandbox, agent: AgentView) => decideSandbox({ sandbox: one, agent, now: later }).step;
    // Its times do not pass, and continue when it is resumed.
    const stored = {
      ...status,
      expiryBase: { expireTime: spec.expireTime, pausedSeconds: 0 },
      firstStartTime: status.pausedTime ?? "",
    };
    expect(at(sandbox(stored, { ...paused, ...spec }), frozen).kind).toBe("wait");
    expect(at(sandbox(stored, spec), frozen)).toEqual({ kind: "resume", sandboxId: id, expiresAtMs: later + 1000 });
    const resumed = at(sandbox(stored, spec), ready("running"));
    expect(resumed).toMatchObject({ kind: "write", status: { phase: "Running", pausedSeconds: 3600 } });
    expect(resumed.kind === "write" && "pausedTime" in resumed.status).toBe(false);
  });

  it("expires when nothing has used it for its idle timeout, and not while something does", () => {
    const idle = (idleSinceMs?: number): AgentView => {
      const agent = ready("running");
      if (agent.kind === "ready" && idleSinceMs !== undefined)
        Object.assign(agent.status.sandboxStatuses[0] ?? {}, { idleSinceMs });
      return agent;
    };
    const spec = { idleTimeoutSeconds: 60 };
    const decide = (agent: AgentView) => decideSandbox({ sandbox: sandbox(running, spec), agent, now });
    expect(decide(idle())).toEqual({ step: { kind: "wait" } });
    expect(decide(idle(now - 20_000))).toEqual({ step: { kind: "wait" }, requeueAfterMs: 40_000 });
    expect(decide(idle(now - 60_000)).step).toMatchObject({
      kind: "write",
      status: { phase: "Terminating", message: "stopping: was idle for 60 s" },
    });
  });

  it("expires at its maximum age, counted from its first start", () => {
    const spec = { maxAgeSeconds: 60 };
    const at = (ms: number) =>
      step(sandbox({ ...running, firstStartTime: new Date(now - ms).toISOString() }, spec), ready("running"));
    expect(at(59_000).kind).toBe("wait");
    expect(at(60_000)).toMatchObject({ kind: "write", status: { message: "stopping: reached its maximum age of 60 s" } });
  });

  it.each(["Succeeded", "Failed", "Expired"] as const)("is deleted its ttlSecondsAfterFinished after it is %s", (phase) => {
    const finished = { phase, [phase === "Expired" ? "expiredTime" : "finishTime"]: "2025-12-31T23:59:00Z" };
    const decide = (ttlSecondsAfterFinished: number) =>
      decideSandbox({ sandbox: sandbox(finished, { ttlSecondsAfterFinished }), agent: { kind: "none" }, now });
    expect(decide(61)).toEqual({ step: { kind: "wait" }, requeueAfterMs: 1000 });
    expect(decide(60).step).toEqual({ kind: "delete-object" });
  });

  it("restarts at a reset with a new instance, once per revision, even if Lost or terminated", () => {
    const spec = { resetRevision: "2026-01-01T00:00:00Z" };
    expect(step(sandbox(running, spec), ready("running"))).toMatchObject({ kind: "delete" });
    for (const phase of ["Running", "Lost", "Failed", "Succeeded", "Expired"] as const) {
      const status = { phase: "Pending", instance: 1, acceptedResetRevision: spec.resetRevision };
      expect(step(sandbox({ ...running, phase }, spec), ready())).toMatchObject({ kind: "write", releases: true, status });
    }
    expect(step(sandbox({ ...running, acceptedResetRevision: spec.resetRevision }, spec), ready("running")).kind).toBe("wait");
  });

  it("becomes Succeeded or Failed with the exit code when its program terminates (A5)", () => {
    expect(step(sandbox(running), ready("stopped"))).toMatchObject({
      kind: "write",
      releases: true,
      status: { phase: "Succeeded" },
    });
    expect(step(sandbox(running), ready("failed"))).toMatchObject({
      status: { phase: "Failed", exitCode: 3, message: "exit code 3" },
    });
  });

  it("does not fail while its agent deletes it: it waits until the agent no longer has it", () => {
    expect(step(sandbox(running), ready("terminating")).kind).toBe("wait");
  });

  it("whose program died with a restarted agent is Lost with Manual, and recreated with AutoRecreate", () => {
    expect(step(sandbox(running), ready("terminated"))).toMatchObject({
      kind: "write",
      releases: true,
      status: { phase: "Lost", sandboxID: id },
    });
    const auto = sandbox(running, { failurePolicy: "AutoRecreate" });
    expect(step(auto, ready("terminated"))).toEqual({ kind: "delete", sandboxId: id });
    expect(step(auto, ready())).toMatchObject({ kind: "write", releases: true, status: { phase: "Pending", instance: 1 } });
  });

  it("with Manual is Lost with its agent until the agent reports it again (C8)", () => {
    const lost = step(sandbox(running), unreachable);
    expect(lost).toMatchObject({
      kind: "write",
      releases: false,
      status: { phase: "Lost", agentLostTime: "2026-01-01T00:00:00Z" },
    });
    const status = lost.kind === "write" ? lost.status : {};
    expect(step(sandbox(status), unreachable).kind).toBe("wait");
    expect(step(sandbox(status), ready("running"))).toMatchObject({ kind: "write", status: { phase: "Running" } });
    expect(step(sandbox(running), gone)).toMatchObject({ status: { phase: "Lost" }, releases: true });
  });

  it.each(["AutoRecreate", "autoRecreate"] as const)(
    "with %s is recreated after recoveryTimeoutSeconds, not before",
    (failurePolicy) => {
      const first = decideSandbox({ sandbox: sandbox(running, { failurePolicy }), agent: unreachable, now });
      expect(first).toMatchObject({ step: { status: { phase: "Lost" } }, requeueAfterMs: 60_000 });
      const status = first.step.kind === "write" ? first.step.status : {};
      const early = decideSandbox({ sandbox: sandbox(status, { failurePolicy }), agent: unreachable, now: now + 59_000 });
      expect(early).toEqual({ step: { kind: "wait" }, requeueAfterMs: 1000 });
      const due = decideSandbox({ sandbox: sandbox(status, { failurePolicy }), agent: unreachable, now: now + 60_000 });
      expect(due).toMatchObject({ step: { kind: "write", releases: true, status: { phase: "Pending", instance: 1 } } });
      expect(step(sandbox(running, { failurePolicy }), gone)).toMatchObject({ status: { phase: "Pending" } });
    },
  );
});
