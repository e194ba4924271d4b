import { type DeepReadonly, findCondition } from "@keelson/api-machinery";
import { describe, expect, it } from "vitest";
import type { RhinoJob } from "../api/rhino-job.ts";
import { at, jobOf, podOf, rhinoJobOf, t0 } from "../testing/objects.ts";
import type { RhinoJobObservation } from "./observation.ts";
import { decideRhinoJob } from "./rhino-job-decision.ts";

type RunPolicy = NonNullable<RhinoJob["spec"]["runPolicy"]>;
type Status = NonNullable<RhinoJob["status"]>;

const observed = (rest: Partial<RhinoJobObservation>): RhinoJobObservation => ({
  job: rhinoJobOf(),
  launcher: undefined,
  workers: undefined,
  launcherPods: [],
  workerPods: [],
  now: t0,
  ...rest,
});
const withPolicy = (runPolicy: RunPolicy, status?: DeepReadonly<Status>) =>
  rhinoJobOf({ runPolicy }, status === undefined ? {} : { status: status as Status });
const conditionOf = (status: DeepReadonly<Status> | undefined, type: string) => findCondition(status?.conditions, type)?.status;

const running = { jobStatus: "Running" as const, startTime: at(0), attempt: 1 };
const exhausted = { type: "Failed" as const, reason: "BackoffLimitExceeded", message: "limit" };
const failedLauncher = jobOf("launcher", { end: exhausted });
const deadLauncher = podOf("l", "Failed", { state: { terminated: { exitCode: 3, reason: "Error" } } });
const endedWorkers = [podOf("w-0", "Failed"), podOf("w-1", "Succeeded")];

/** A job whose first attempt failed 20 s after its start. */
function afterFailure(policy: RunPolicy, rest: Partial<RhinoJobObservation> = {}) {
  return decideRhinoJob(
    observed({
      job: withPolicy(policy, running),
      launcher: failedLauncher,
      workers: jobOf("workers"),
      launcherPods: [deadLauncher],
      workerPods: endedWorkers,
      now: t0 + 20_000,
      ...rest,
    }),
  );
}

describe("backoffLimit", () => {
  it("fails at the first failure by default", () => {
    expect(afterFailure({}).status).toMatchObject({ jobStatus: "Failed", exitCode: 3 });
  });

  it("starts another attempt with fresh children 10 s after a failure", () => {
    const { status, events } = afterFailure({ backoffLimit: 2 });
    expect(status).toMatchObject({
      jobStatus: "Pending",
      attempt: 1,
      failures: 1,
      message: "attempt 1 failed: mpiexec exited with 3",
    });
    expect([conditionOf(status, "Restarting"), conditionOf(status, "Running")]).toEqual(["True", "False"]);
    expect(events).toMatchObject([{ type: "Warning", reason: "AttemptFailed" }]);
    const seen = { launcher: failedLauncher, launcherPods: [deadLauncher], workerPods: endedWorkers };
    const job = withPolicy({ backoffLimit: 2 }, status);
    expect(decideRhinoJob(observed({ ...seen, job, now: t0 + 29_000 }))).toEqual({
      suspend: [],
      events: [],
      requeueAfterMs: 1000,
    });
    const next = decideRhinoJob(observed({ ...seen, job, now: t0 + 30_000 }));
    expect(next).toMatchObject({
      createLauncher: true,
      status: { attempt: 2, failures: 1, startTime: at(0), launcherPodNames: [] },
    });
    expect(next.status?.exitCode).toBeUndefined();
    expect(conditionOf(next.status, "Restarting")).toBe("False");
    expect(next.events).toMatchObject([{ note: "created Job pi-0a1b2-a2-launcher" }]);
  });

  it("waits until every Pod of the failed attempt has ended, and stops those that do not end", () => {
    const { status } = afterFailure({ backoffLimit: 1 });
    const job = withPolicy({ backoffLimit: 1 }, status);
    const workerPods = [podOf("w-0", "Running"), podOf("w-1", "Succeeded")];
    const seen = { job, launcher: failedLauncher, workers: jobOf("workers"), launcherPods: [deadLauncher], workerPods };
    expect(decideRhinoJob(observed({ ...seen, now: t0 + 21_000 })).suspend).toEqual([]);
    const later = decideRhinoJob(observed({ ...seen, now: t0 + 60_000 }));
    expect(later).toEqual({ suspend: ["workers"], events: [] });
  });

  it("doubles the wait up to 6 min", () => {
    const waitAfter = (failures: number) => {
      const conditions = [{ type: "Restarting", status: "True" as const, lastTransitionTime: at(0), reason: "X", message: "" }];
      const status = { ...running, jobStatus: "Pending" as const, attempt: failures, failures, conditions };
      return decideRhinoJob(observed({ job: withPolicy({ backoffLimit: 99 }, status) })).requeueAfterMs;
    };
    expect([1, 2, 3, 7].map(waitAfter)).toEqual([10_000, 20_000, 40_000, 360_000]);
  });

  it("fails when the limit is reached, with the last failure", () => {
    const job = withPolicy({ backoffLimit: 1 }, { ...running, attempt: 2, failures: 1 });
    const { status } = afterFailure({}, { job });
    expect(status).toMatchObject({ jobStatus: "Failed", attempt: 2, message: "mpiexec exited with 3" });
    expect(conditionOf(status, "Failed")).toBe("True");
  });

  it("does not retry what a retry cannot help", () => {
    const deadline = jobOf("launcher", { end: { type: "Failed", reason: "DeadlineExceeded", message: "too long" } });
    expect(afterFailure({ backoffLimit: 5 }, { launcher: deadline }).status?.jobStatus).toBe("Failed");
    const foreign = jobOf("launcher", { ownerUid: "other" });
    expect(afterFailure({ backoffLimit: 5 }, { launcher: foreign }).status?.jobStatus).toBe("Failed");
  });

  it("retries an attempt whose launcher was deleted", () => {
    const { status } = afterFailure({ backoffLimit: 1 }, { launcher: undefined });
    expect(status).toMatchObject({ failures: 1, message: expect.stringContaining("was deleted") });
  });
});

describe("activeDeadlineSeconds", () => {
  it("includes the time between attempts", () => {
    const policy = { backoffLimit: 3, activeDeadlineSeconds: 25 };
    const { status } = afterFailure(policy);
    const job = withPolicy(policy, status);
    expect(decideRhinoJob(observed({ job, now: t0 + 21_000 })).requeueAfterMs).toBe(4000);
    const late = decideRhinoJob(observed({ job, now: t0 + 25_000 })).status;
    expect(late).toMatchObject({ jobStatus: "Failed" });
    expect(findCondition(late?.conditions, "Failed")?.reason).toBe("DeadlineExceeded");
  });
});

describe("suspend", () => {
  const children = { launcher: jobOf("launcher"), workers: jobOf("workers") };
  const suspendedStatus = (now = t0) => decideRhinoJob(observed({ job: withPolicy({ suspend: true }), now })).status;

  it("creates nothing for a job that was created suspended", () => {
    const decision = decideRhinoJob(observed({ job: withPolicy({ suspend: true }) }));
    expect(decision).toMatchObject({ suspend: [], status: { jobStatus: "Suspended", message: "suspended" } });
    expect(decision.createLauncher).toBeUndefined();
    expect([decision.status?.startTime, decision.status?.attempt]).toEqual([undefined, undefined]);
    expect(conditionOf(decision.status, "Suspended")).toBe("True");
    const again = decideRhinoJob(observed({ job: withPolicy({ suspend: true }, decision.status), now: t0 + 1000 }));
    expect(again).toEqual({ suspend: [], events: [] });
  });

  it("stops a running job and clears its start time", () => {
    const decision = decideRhinoJob(observed({ ...children, job: withPolicy({ suspend: true }, running), now: t0 + 5000 }));
    expect(decision).toMatchObject({ suspend: ["launcher", "workers"], status: { jobStatus: "Suspended", attempt: 1 } });
    expect(decision.status?.startTime).toBeUndefined();
    expect(conditionOf(decision.status, "Running")).toBe("False");
  });

  it("resumes with a fresh attempt once the Pods have ended, and counts its time anew", () => {
    const { status } = decideRhinoJob(observed({ ...children, job: withPolicy({ suspend: true }, running), now: t0 + 5000 }));
    const job = withPolicy({ suspend: false }, status);
    const ending = observed({ ...children, job, workerPods: [podOf("w-0", "Running", { deleting: true })], now: t0 + 90_000 });
    // The controller stopped before it had suspended them.
    expect(decideRhinoJob(ending)).toEqual({ suspend: ["launcher", "workers"], events: [] });
    const resumed = decideRhinoJob(observed({ ...children, job, now: t0 + 91_000 }));
    expect(resumed).toMatchObject({ createLauncher: true, status: { jobStatus: "Pending", attempt: 2, startTime: at(91) } });
    expect(conditionOf(resumed.status, "Suspended")).toBe("False");
    expect(resumed.events.map(({ reason }) => reason)).toEqual(["Resumed", "LauncherCreated"]);
  });

  it("counts an attempt whose Jobs exist although its status was not written", () => {
    const { status } = decideRhinoJob(observed({ job: withPolicy({ suspend: true }), launcher: jobOf("launcher") }));
    const resumed = decideRhinoJob(observed({ job: withPolicy({}, status), launcher: jobOf("launcher", { suspended: true }) }));
    expect(resumed).toMatchObject({ createLauncher: true, status: { attempt: 2 } });
  });

  it("starts a job that was created suspended with its first attempt", () => {
    const resumed = decideRhinoJob(observed({ job: withPolicy({}, suspendedStatus()), now: t0 + 7000 }));
    expect(resumed).toMatchObject({ createLauncher: true, status: { attempt: 1, startTime: at(7) } });
  });

  it("does not count as a failure, and resumes twice", () => {
    let status: DeepReadonly<Status> | undefined = running;
    for (const attempt of [2, 3]) {
      status = decideRhinoJob(observed({ ...children, job: withPolicy({ suspend: true }, status) })).status;
      status = decideRhinoJob(observed({ ...children, job: withPolicy({}, status) })).status;
      expect(status).toMatchObject({ attempt });
      expect(status?.failures).toBeUndefined();
    }
  });

  it("keeps the result of a program that has ended", () => {
    const launcher = jobOf("launcher", { end: { type: "Complete" } });
    const decision = decideRhinoJob(observed({ ...children, launcher, job: withPolicy({ suspend: true }, running) }));
    expect(decision.status?.jobStatus).toBe("Completed");
  });

  it("stops a job between two attempts", () => {
    const { status } = afterFailure({ backoffLimit: 1 });
    const job = withPolicy({ backoffLimit: 1, suspend: true }, status);
    const decision = decideRhinoJob(observed({ job, launcher: failedLauncher, now: t0 + 60_000 }));
    expect(decision.status).toMatchObject({ jobStatus: "Suspended", failures: 1 });
    expect(conditionOf(decision.status, "Restarting")).toBe("False");
  });
});

describe("after the end", () => {
  const completed = { ...running, jobStatus: "Completed" as const, completionTime: at(100) };
  const children = { launcher: jobOf("launcher", { end: { type: "Complete" } }), workers: jobOf("workers") };
  const seen = { ...children, workerPods: [podOf("w-0", "Running")] };

  it.each([
    ["None", {}],
    ["Running", { suspend: ["workers"] }],
    ["All", { remove: ["launcher", "workers"] }],
  ] as const)("cleanPodPolicy %s writes %j", (cleanPodPolicy, writes) => {
    const job = withPolicy({ cleanPodPolicy }, completed);
    const decision = decideRhinoJob(observed({ ...seen, job, now: t0 + 110_000 }));
    expect(decision).toEqual({ suspend: [], events: [], requeueAfterMs: 590_000, ...writes });
  });

  it("counts ttlSecondsAfterFinished from the end instead of ttl, and 0 deletes immediately", () => {
    const decide = (ttlSecondsAfterFinished: number, now: number) =>
      decideRhinoJob(observed({ ...children, job: withPolicy({ ttlSecondsAfterFinished }, completed), now }));
    expect(decide(60, t0 + 130_000)).toMatchObject({ requeueAfterMs: 30_000 });
    expect(decide(60, t0 + 160_000).isExpired).toBe(true);
    expect(decide(0, t0 + 100_000).isExpired).toBe(true);
  });
});

describe("managedBy", () => {
  it("ignores jobs of another controller", () => {
    const job = withPolicy({ managedBy: "kueue.x-k8s.io/multikueue" });
    expect(decideRhinoJob(observed({ job }))).toEqual({ suspend: [], events: [] });
  });

  it("runs jobs that are explicitly its own", () => {
    expect(decideRhinoJob(observed({ job: withPolicy({ managedBy: "kubeflow.org/mpi-operator" }) })).createLauncher).toBe(true);
  });
});

it("counts the Pods of each type", () => {
  const workerPods = [podOf("w-0", "Running"), podOf("w-1", "Succeeded"), podOf("w-2", "Failed")];
  const launcherPods = [podOf("l", "Running")];
  const { status } = decideRhinoJob(
    observed({
      job: withPolicy({}, running),
      launcher: jobOf("launcher"),
      workers: jobOf("workers", { end: exhausted }),
      launcherPods,
      workerPods,
    }),
  );
  expect(status?.replicaStatuses).toMatchObject({
    Launcher: { active: 1, succeeded: 0, failed: 0 },
    Worker: { active: 1, succeeded: 1, failed: 1 },
  });
});
