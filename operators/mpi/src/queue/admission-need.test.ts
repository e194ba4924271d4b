import type { DeepReadonly } from "@keelson/api-machinery";
import { describe, expect, it } from "vitest";
import type { RhinoJob } from "../api/rhino-job.ts";
import type { RhinoJobObservation } from "../controllers/observation.ts";
import { decideRhinoJob } from "../controllers/rhino-job-decision.ts";
import { at, jobOf, podOf, rhinoJobOf, t0 } from "../testing/objects.ts";
import { admissionNeed } from "./admission-need.ts";

type Status = NonNullable<RhinoJob["status"]>;

const decide = (job: DeepReadonly<RhinoJob>, rest: Partial<RhinoJobObservation> = {}) =>
  decideRhinoJob({
    ...{ job, launcher: undefined, workers: undefined, launcherPods: [], workerPods: [], now: t0, needsAdmission: true },
    ...rest,
  });
const withStatus = (status: Status, spec: Partial<RhinoJob["spec"]> = {}) => rhinoJobOf(spec, { status });
const condition = (type: string) => ({ type, status: "True" as const, reason: "", message: "", lastTransitionTime: at(0) });
const queue = { name: "default" };

describe("a job that needs an admission", () => {
  it("writes nothing until the queue has considered it, then says what it waits for, and starts once it is admitted", () => {
    expect(decide(rhinoJobOf())).toEqual({ suspend: [], events: [], awaitsAdmission: true });
    const waiting = decide(withStatus({ queue: { ...queue, reason: "QuotaExceeded", position: 1 } }));
    expect(waiting.createLauncher).toBeUndefined();
    expect(waiting.status).toMatchObject({
      jobStatus: "Pending",
      message: "waits for admission by queue default: QuotaExceeded",
    });
    expect(waiting.status).not.toHaveProperty("startTime");
    expect(waiting.status).not.toHaveProperty("attempt");
    expect(waiting.status).not.toHaveProperty("queue");
    expect(decide(withStatus({ queue: { ...queue, admittedAttempt: 1 } }))).toMatchObject({
      createLauncher: true,
      status: { attempt: 1, startTime: at(0) },
    });
  });

  it("needs another admission for another attempt, when its backoff has passed", () => {
    const status = {
      ...{ jobStatus: "Pending" as const, startTime: at(0), attempt: 1, failures: 1, conditions: [condition("Restarting")] },
      queue: { ...queue, admittedAttempt: 1 },
    };
    const job = withStatus(status, { runPolicy: { backoffLimit: 2 } });
    expect(admissionNeed(job)).toEqual({ kind: "waiting", attempt: 2, readyAt: t0 + 10_000 });
    const seen = { launcher: jobOf("launcher", { end: { type: "Failed" } }), now: t0 + 10_000 };
    expect(decide(job, seen)).toMatchObject({ awaitsAdmission: true });
    const admitted = withStatus({ ...status, queue: { ...queue, admittedAttempt: 2 } }, { runPolicy: { backoffLimit: 2 } });
    expect(admissionNeed(admitted)).toEqual({ kind: "running", attempt: 2 });
    expect(decide(admitted, seen)).toMatchObject({ createLauncher: true, status: { attempt: 2 } });
  });

  it("gives its admission up while it is suspended, and needs another one when it is resumed", () => {
    const status = { jobStatus: "Suspended" as const, attempt: 1, conditions: [condition("Suspended")] };
    expect(admissionNeed(withStatus(status, { runPolicy: { suspend: true } }))).toEqual({ kind: "none" });
    const resumed = withStatus({ ...status, queue: { ...queue, admittedAttempt: 1 } });
    expect(admissionNeed(resumed)).toMatchObject({ kind: "waiting", attempt: 2 });
    expect(decide(resumed)).toMatchObject({ awaitsAdmission: true, status: { jobStatus: "Pending" } });
  });

  it("holds what it was admitted with until it has ended, even if it was started before there was a queue", () => {
    const running = { jobStatus: "Running" as const, startTime: at(0), attempt: 1 };
    expect(admissionNeed(withStatus(running))).toEqual({ kind: "running", attempt: 1 });
    expect(admissionNeed(withStatus({ ...running, jobStatus: "Failed" }))).toEqual({ kind: "none" });
  });
});

describe("a cancelled job", () => {
  const cancelled = (status: Status) => {
    const job = rhinoJobOf({ runPolicy: { backoffLimit: 3 } }, { status });
    return { ...job, metadata: { ...job.metadata, annotations: { "openrhino.org/cancel": "true" } } };
  };

  it("fails without another attempt, and its Pods are stopped", () => {
    const job = cancelled({ jobStatus: "Running", startTime: at(0), attempt: 1 });
    const decision = decide(job, { launcher: jobOf("launcher"), launcherPods: [podOf("l", "Running")] });
    expect(decision).toMatchObject({ suspend: ["launcher"], status: { jobStatus: "Failed", message: "cancelled" } });
    expect(decision.events).toMatchObject([{ reason: "Cancelled" }]);
  });

  it("leaves the queue if it waits", () => {
    const decision = decide(cancelled({ queue: { ...queue, reason: "QueueHeld", position: 1 } }));
    expect(decision.status).toMatchObject({ jobStatus: "Failed" });
  });

  it("keeps the result of a program that has ended", () => {
    const job = cancelled({ jobStatus: "Running", startTime: at(0), attempt: 1 });
    const launcher = jobOf("launcher", { end: { type: "Complete" } });
    expect(decide(job, { launcher }).status).toMatchObject({ jobStatus: "Completed" });
  });
});
