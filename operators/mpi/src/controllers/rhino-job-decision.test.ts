import type { DeepReadonly } from "@keelson/api-machinery";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { RhinoJob } from "../api/rhino-job.ts";
import { at, jobOf, podOf, rhinoJobOf, t0 } from "../testing/objects.ts";
import type { RhinoJobObservation } from "./observation.ts";
import { decideRefused, decideRhinoJob, decideWithoutPodGroups } from "./rhino-job-decision.ts";
import { mountCheckIntervalMs } from "./waiting-reason.ts";

type Status = NonNullable<RhinoJob["status"]>;

const observed = (rest: Partial<RhinoJobObservation> = {}): RhinoJobObservation => ({
  job: rhinoJobOf(),
  launcher: undefined,
  workers: undefined,
  launcherPods: [],
  workerPods: [],
  now: t0,
  ...rest,
});

const condition = (status: DeepReadonly<Status> | undefined, type: string) =>
  status?.conditions?.find((each) => each.type === type);
const started: Status = { jobStatus: "Pending", startTime: at(0) };
const wasReady: Status = {
  ...started,
  conditions: [{ type: "LauncherReady", status: "True", lastTransitionTime: at(0), reason: "LinesRead", message: "" }],
};
const readyLauncher = podOf("l", "Running", { ready: true, ip: "127.5.0.1" });
const failedWith = (code: number, message?: string) =>
  podOf("l", "Failed", { state: { terminated: { exitCode: code, reason: "Error", ...(message ? { message } : {}) } } });
const exhausted = {
  type: "Failed" as const,
  reason: "BackoffLimitExceeded",
  message: "Job has reached the specified backoff limit",
};

describe("decideRhinoJob before the end", () => {
  it("first creates the launcher and records that", () => {
    const decision = decideRhinoJob(observed());
    expect(decision).toMatchObject({ createLauncher: true, status: { jobStatus: "Pending", startTime: at(0) } });
    expect(decision.createWorkers).toBeUndefined();
  });

  it("creates it again after a crash before that was recorded", () => {
    expect(decideRhinoJob(observed({ now: t0 + 5000 })).createLauncher).toBe(true);
  });

  it("creates the workers as soon as the launcher has an address, while its containers are still starting", () => {
    const waiting = decideRhinoJob(observed({ launcher: jobOf("launcher"), launcherPods: [podOf("l", "Pending")] }));
    expect(waiting.createWorkers).toBeUndefined();
    expect(waiting.status).toMatchObject({ message: "the launcher is not running yet", launcherPodNames: ["l"] });
    const addressed = podOf("l", "Pending", { ip: "127.5.0.1" });
    const decision = decideRhinoJob(observed({ launcher: jobOf("launcher"), launcherPods: [addressed] }));
    expect(decision.createWorkers).toEqual({ launcherHost: "127.5.0.1" });
    expect(condition(decision.status, "LauncherReady")?.status).toBe("False");
    expect(condition(decision.status, "WorkersCreated")?.status).toBe("True");
  });

  it("creates launcher and workers together for a scheduler that places them together", () => {
    const startsTogether = true;
    const launcherHost = "pi-0a1b2-launcher.pi-0a1b2-hosts.default.svc";
    const decision = decideRhinoJob(observed({ startsTogether }));
    expect(decision).toMatchObject({ createLauncher: true, createWorkers: { launcherHost } });
    expect(condition(decision.status, "WorkersCreated")?.status).toBe("True");
    // After a crash between the two.
    const rest = decideRhinoJob(observed({ startsTogether, launcher: jobOf("launcher") }));
    expect(rest).toMatchObject({ createWorkers: { launcherHost } });
    expect(rest.createLauncher).toBeUndefined();
  });

  it("fails if the workers that it has created were deleted, even before the launcher is ready", () => {
    const created = decideRhinoJob(observed({ launcher: jobOf("launcher"), launcherPods: [readyLauncher] })).status;
    const job = rhinoJobOf({}, { status: { ...created, jobStatus: "Pending" } as Status });
    const decision = decideRhinoJob(observed({ job, launcher: jobOf("launcher"), launcherPods: [readyLauncher] }));
    expect(condition(decision.status, "Failed")?.reason).toBe("WorkersDeleted");
  });

  it("records that the launcher is ready alongside its workers", () => {
    const jobs = { launcher: jobOf("launcher"), workers: jobOf("workers") };
    const decision = decideRhinoJob(
      observed({ ...jobs, launcherPods: [readyLauncher], workerPods: [podOf("w-0", "Pending")] }),
    );
    expect(condition(decision.status, "LauncherReady")?.status).toBe("True");
    expect(decision.status?.message).toBe("0 of 2 workers running");
  });

  it("is Pending while the launcher is not running, although its workers are", () => {
    const jobs = { launcher: jobOf("launcher"), workers: jobOf("workers") };
    const workerPods = [podOf("w-0", "Running"), podOf("w-1", "Running")];
    const decision = decideRhinoJob(
      observed({ ...jobs, launcherPods: [podOf("l", "Pending", { ip: "127.5.0.1" })], workerPods }),
    );
    expect(decision.status).toMatchObject({ jobStatus: "Pending", message: "the launcher is not running yet" });
  });

  it("is Running when its Pods are and mpiexec can start ranks, not before", () => {
    const jobs = { launcher: jobOf("launcher"), workers: jobOf("workers") };
    const workerPods = [podOf("w-0", "Running"), podOf("w-1", "Running")];
    const waiting = decideRhinoJob(observed({ ...jobs, launcherPods: [podOf("l", "Running")], workerPods })).status;
    expect(waiting).toMatchObject({ jobStatus: "Pending", message: "waiting for mpiexec's launch lines" });
    expect(condition(waiting, "Running")).toMatchObject({ status: "False", reason: "LauncherStarting" });
    const running = decideRhinoJob(observed({ ...jobs, launcherPods: [readyLauncher], workerPods })).status;
    expect(running).toMatchObject({ jobStatus: "Running", message: "the launcher and 2 workers are running" });
  });

  it("does not believe a launcher's Pod that the Job controller has not counted", () => {
    const { status: _, ...uncounted } = jobOf("launcher");
    const launcherPods = [podOf("l", "Succeeded")];
    expect(decideRhinoJob(observed({ launcher: uncounted, launcherPods })).status?.jobStatus).toBe("Pending");
    expect(decideRhinoJob(observed({ launcher: jobOf("launcher"), launcherPods })).status?.jobStatus).toBe("Completed");
  });

  it("waits for PodGroups that the cluster does not have, without starting the job's time", () => {
    const decision = decideWithoutPodGroups(observed(), "podgroups not found");
    expect(decision).toMatchObject({
      status: { jobStatus: "Pending", message: "podgroups not found" },
      requeueAfterMs: 10_000,
    });
    expect(decision.status).not.toHaveProperty("startTime");
    expect(decision.createLauncher).toBeUndefined();
  });

  it("ignores a launcher that is being deleted, has ended or has no address", () => {
    for (const pod of [
      podOf("l", "Running", { ready: true, ip: "127.5.0.1", deleting: true }),
      podOf("l", "Failed", { ip: "127.5.0.1" }),
      podOf("l", "Running", { ready: true }),
    ]) {
      expect(decideRhinoJob(observed({ launcher: jobOf("launcher"), launcherPods: [pod] })).createWorkers).toBeUndefined();
    }
  });

  it("finds the launcher's Pod by its state, not by its position (issue 41 of the original)", () => {
    const dead = podOf("l-dead", "Failed", { ip: "127.5.0.9" });
    const decision = decideRhinoJob(observed({ launcher: jobOf("launcher"), launcherPods: [dead, readyLauncher] }));
    expect(decision.createWorkers).toEqual({ launcherHost: "127.5.0.1" });
  });

  it("is Pending while a worker is not running and says which and why (1.6)", () => {
    const decision = decideRhinoJob(
      observed({
        job: rhinoJobOf({}, { status: wasReady }),
        launcher: jobOf("launcher"),
        workers: jobOf("workers"),
        workerPods: [podOf("w-0", "Running"), podOf("w-1", "Pending", { unschedulable: "0/1 nodes fit" })],
      }),
    );
    expect(decision.status).toMatchObject({
      jobStatus: "Pending",
      message: "worker w-1 cannot start: Unschedulable: 0/1 nodes fit",
    });
  });

  it("says why a volume of a launcher's or worker's Pod cannot be mounted, and checks again (FailedMount)", () => {
    const creating = { ...podOf("l-1", "Pending"), spec: { nodeName: "node-1", containers: [] } };
    const mountFailureOf = () => "mount of nfs server 10.0.0.9:/data failed";
    const message = "cannot start: FailedMount: mount of nfs server 10.0.0.9:/data failed";
    const launching = { job: rhinoJobOf({}, { status: started }), launcher: jobOf("launcher") };
    const waiting = decideRhinoJob(observed({ ...launching, launcherPods: [creating], mountFailureOf }));
    expect(waiting).toMatchObject({
      status: { jobStatus: "Pending", message: `the launcher ${message}` },
      requeueAfterMs: mountCheckIntervalMs,
    });
    const worker = { ...podOf("w-1", "Pending"), spec: { nodeName: "node-1", containers: [] } };
    const seen = { ...launching, workers: jobOf("workers"), workerPods: [worker], mountFailureOf };
    expect(decideRhinoJob(observed(seen)).status?.message).toBe(`worker w-1 ${message}`);
  });

  it("is Running once all workers are running and stays so", () => {
    const jobs = { launcher: jobOf("launcher"), workers: jobOf("workers") };
    const both = [podOf("w-0", "Running"), podOf("w-1", "Running")];
    const running = decideRhinoJob(observed({ job: rhinoJobOf({}, { status: wasReady }), ...jobs, workerPods: both })).status;
    expect(running).toMatchObject({ jobStatus: "Running", workerPodNames: ["w-0", "w-1"] });
    const job = rhinoJobOf({}, { status: running as Status });
    expect(decideRhinoJob(observed({ job, ...jobs, workerPods: both.slice(1) })).status?.jobStatus).toBe("Running");
  });

  it("reports ImageError while the launcher's or a worker's image cannot be pulled", () => {
    const state = { waiting: { reason: "ImagePullBackOff", message: "no such image" } };
    const launcher = jobOf("launcher");
    const first = decideRhinoJob(observed({ launcher, launcherPods: [podOf("l", "Pending", { state })] })).status;
    expect(first).toMatchObject({
      jobStatus: "ImageError",
      message: "the launcher cannot start: ImagePullBackOff: no such image",
    });
    const workers = jobOf("workers");
    const job = rhinoJobOf({}, { status: wasReady });
    const second = decideRhinoJob(
      observed({ job, launcher, workers, workerPods: [podOf("w-1", "Pending", { state })] }),
    ).status;
    expect(second?.jobStatus).toBe("ImageError");
    const again = decideRhinoJob(
      observed({ job: rhinoJobOf({}, { status: first as Status }), launcher, launcherPods: [podOf("l", "Running")] }),
    );
    expect(again.status?.jobStatus).toBe("Pending");
  });

  it("does not report ImageError if a container waits for something else", () => {
    const state = { waiting: { reason: "CreateContainerConfigError", message: "no secret" } };
    const decision = decideRhinoJob(
      observed({ launcher: jobOf("launcher"), launcherPods: [podOf("l", "Pending", { state })] }),
    );
    expect(decision.status).toMatchObject({
      jobStatus: "Pending",
      message: expect.stringContaining("CreateContainerConfigError"),
    });
  });

  it("writes nothing if nothing changed (regression 16)", () => {
    const first = decideRhinoJob(observed({ launcher: jobOf("launcher"), launcherPods: [podOf("l", "Pending")] }));
    const job = rhinoJobOf({}, { status: first.status as Status });
    const second = decideRhinoJob(
      observed({ job, launcher: jobOf("launcher"), launcherPods: [podOf("l", "Pending")], now: t0 + 60_000 }),
    );
    expect(second.status).toBeUndefined();
  });

  it("ignores a job that is being deleted", () => {
    expect(decideRhinoJob(observed({ job: rhinoJobOf({}, { deleting: true }) }))).toEqual({ suspend: [], events: [] });
  });
});

describe("decideRhinoJob at the end", () => {
  const running = rhinoJobOf({}, { status: { ...wasReady, jobStatus: "Running" } });

  it("is Completed if the launcher exited with 0", () => {
    const decision = decideRhinoJob(
      observed({
        job: running,
        launcher: jobOf("launcher", { end: { type: "Complete" } }),
        workers: jobOf("workers"),
        now: t0 + 9000,
      }),
    );
    expect(decision.status).toMatchObject({ jobStatus: "Completed", exitCode: 0, completionTime: at(9) });
    expect(condition(decision.status, "Completed")?.status).toBe("True");
    expect(condition(decision.status, "Running")?.status).toBe("False");
  });

  it("stays Completed if a worker fails after the program's end", () => {
    const workers = jobOf("workers", { end: { ...exhausted, at: 1 } });
    const launcher = jobOf("launcher", { end: { type: "Complete" } });
    expect(decideRhinoJob(observed({ job: running, launcher, workers, now: t0 + 60_000 })).status?.jobStatus).toBe("Completed");
  });

  it("is Failed with the program's status even if every worker succeeded (regression 1)", () => {
    const decision = decideRhinoJob(
      observed({
        job: running,
        launcher: jobOf("launcher", { end: exhausted }),
        workers: jobOf("workers", { end: { type: "Complete" } }),
        launcherPods: [failedWith(7)],
      }),
    );
    expect(decision.status).toMatchObject({ jobStatus: "Failed", exitCode: 7, message: "mpiexec exited with 7" });
    expect(condition(decision.status, "Failed")?.reason).toBe("ProgramFailed");
  });

  it("reports the failed rank that the launcher names", () => {
    const detail = "rank 1 on worker 1 failed: killed by SIGSEGV (signal 11)";
    const state = { terminated: { exitCode: 139, reason: "Error", message: `...\nkeelson mpi launcher: ${detail}\n` } };
    const decision = decideRhinoJob(
      observed({
        launcher: jobOf("launcher", { end: { type: "Failed", reason: "BackoffLimitExceeded" } }),
        launcherPods: [podOf("l-1", "Failed", { state: state as never })],
      }),
    );
    expect(decision.status).toMatchObject({ jobStatus: "Failed", message: detail, exitCode: 139 });
  });

  it("reports the launcher's own reason if it has one", () => {
    const decision = decideRhinoJob(
      observed({
        job: running,
        launcher: jobOf("launcher", { end: exhausted }),
        launcherPods: [failedWith(125, "noise\nkeelson mpi launcher: WorkerLost: worker 1 was lost: read ECONNRESET\n")],
      }),
    );
    expect(decision.status?.message).toBe("WorkerLost: worker 1 was lost: read ECONNRESET");
  });

  it("reports the system's reason rather than the program's last lines", () => {
    const ended = (reason: string, message?: string) =>
      podOf("l", "Failed", { state: { terminated: { exitCode: 137, reason, ...(message ? { message } : {}) } } });
    const messageOf = (pod: ReturnType<typeof ended>) =>
      decideRhinoJob(observed({ job: running, launcher: jobOf("launcher", { end: exhausted }), launcherPods: [pod] })).status
        ?.message;
    expect(messageOf(ended("OOMKilled"))).toBe("the launcher was killed (exit code 137): OOMKilled");
    expect(messageOf(ended("Error", "pi is 3\n-----\nsomething\n"))).toBe("the launcher was killed (exit code 137)");
  });

  it("fails with the API server's message if it rejects the launcher or workers permanently", () => {
    const decision = decideRefused(observed(), "Job is invalid: spec.template.spec.containers[0].image");
    expect(decision.status).toMatchObject({
      jobStatus: "Failed",
      message: "Job is invalid: spec.template.spec.containers[0].image",
    });
  });

  it("is Failed, not Pending, if the launcher could never run (issue 32 of the original)", () => {
    const decision = decideRhinoJob(
      observed({ job: rhinoJobOf({}, { status: started }), launcher: jobOf("launcher", { end: exhausted }) }),
    );
    expect(decision.status).toMatchObject({
      jobStatus: "Failed",
      message: `the launcher's Pod was deleted or not created: ${exhausted.message}`,
    });
  });

  it("follows the launcher's only Pod before the Job controller has recorded its end", () => {
    const seen = { job: running, launcher: jobOf("launcher"), workers: jobOf("workers") };
    const succeeded = podOf("l", "Succeeded");
    expect(decideRhinoJob(observed({ ...seen, launcherPods: [succeeded] })).status?.jobStatus).toBe("Completed");
    const failed = decideRhinoJob(observed({ ...seen, launcherPods: [failedWith(3)] }));
    expect(failed.status).toMatchObject({ jobStatus: "Failed", exitCode: 3 });
    // The Job controller decides about a Pod that is deleted, and about a Job that is suspended.
    const deleted = { ...seen, launcherPods: [podOf("l", "Failed", { deleting: true })] };
    expect(decideRhinoJob(observed(deleted)).status?.jobStatus).not.toBe("Failed");
    const stopped = { ...seen, launcher: jobOf("launcher", { suspended: true }), launcherPods: [succeeded] };
    expect(decideRhinoJob(observed(stopped)).status?.jobStatus).not.toBe("Completed");
  });

  it("does not suspend Jobs whose Pods have ended", () => {
    const workerPods = [podOf("w-0", "Succeeded"), podOf("w-1", "Succeeded")];
    const seen = { job: running, launcher: jobOf("launcher"), workers: jobOf("workers"), workerPods };
    expect(decideRhinoJob(observed({ ...seen, launcherPods: [podOf("l", "Succeeded")] })).suspend).toEqual([]);
    const missing = { ...seen, workerPods: workerPods.slice(1), launcherPods: [podOf("l", "Succeeded")] };
    expect(decideRhinoJob(observed(missing)).suspend).toEqual(["workers"]);
  });

  it("reports that the deadline has passed", () => {
    const launcher = jobOf("launcher", {
      end: { type: "Failed", reason: "DeadlineExceeded", message: "Job was active longer" },
    });
    const decision = decideRhinoJob(observed({ job: running, launcher, workers: jobOf("workers") }));
    expect(condition(decision.status, "Failed")).toMatchObject({
      reason: "DeadlineExceeded",
      message: "Job was active longer",
    });
    expect(decision.suspend).toEqual(["workers"]);
  });

  it("gives the launcher time to report why a worker failed, then fails and stops the launcher", () => {
    const workers = jobOf("workers", { end: { ...exhausted, at: 10 } });
    const worker = podOf("w-1", "Failed", { state: { terminated: { exitCode: 127 } } });
    const seen = { job: running, launcher: jobOf("launcher"), workers, workerPods: [worker] };
    expect(decideRhinoJob(observed({ ...seen, now: t0 + 11_000 }))).toMatchObject({ requeueAfterMs: 3000 });
    const decision = decideRhinoJob(observed({ ...seen, now: t0 + 15_000 }));
    expect(decision.status).toMatchObject({ jobStatus: "Failed", message: "worker w-1 exited with 127" });
    expect(decision.suspend).toEqual(["launcher"]);
    const lost = podOf("w-1", "Failed", { state: { terminated: { exitCode: 111 } } });
    expect(decideRhinoJob(observed({ ...seen, workerPods: [lost], now: t0 + 10_500 })).requeueAfterMs).toBe(500);
    const frozen = decideRhinoJob(observed({ ...seen, workerPods: [lost], now: t0 + 11_000 }));
    expect(frozen.status).toMatchObject({ jobStatus: "Failed", message: "worker w-1 exited with 111" });
  });

  it("waits less for a launcher that is not ready, because no rank runs", () => {
    const workers = jobOf("workers", { end: { ...exhausted, at: 10 } });
    const worker = podOf("w-1", "Failed", { state: { terminated: { exitCode: 137 } } });
    const job = rhinoJobOf({}, { status: started });
    const seen = { job, launcher: jobOf("launcher"), workers, workerPods: [worker] };
    expect(decideRhinoJob(observed({ ...seen, now: t0 + 11_000 })).requeueAfterMs).toBe(1000);
    const decision = decideRhinoJob(observed({ ...seen, now: t0 + 12_000 }));
    expect(decision.status).toMatchObject({ jobStatus: "Failed", message: "worker w-1 exited with 137" });
  });

  it("fails for one worker while the others still run, and leaves those time to end with their logs", () => {
    const worker = podOf("w-1", "Failed", { state: { terminated: { exitCode: 7, finishedAt: at(10) } } });
    const workerPods = [podOf("w-0", "Running"), worker];
    const seen = { job: running, launcher: jobOf("launcher"), workers: jobOf("workers"), workerPods };
    expect(decideRhinoJob(observed({ ...seen, now: t0 + 11_000 }))).toMatchObject({ requeueAfterMs: 3000 });
    const decision = decideRhinoJob(observed({ ...seen, now: t0 + 25_000 }));
    expect(decision.status).toMatchObject({ jobStatus: "Failed", message: "worker w-1 exited with 7" });
    expect(decision).toMatchObject({ suspend: ["launcher"], requeueAfterMs: 6000 });
    const job = rhinoJobOf({}, { status: decision.status as Status });
    const rest = { ...seen, job, launcher: jobOf("launcher", { suspended: true }) };
    expect(decideRhinoJob(observed({ ...rest, now: t0 + 26_000 }))).toMatchObject({ suspend: [], requeueAfterMs: 5000 });
    expect(decideRhinoJob(observed({ ...rest, now: t0 + 31_000 })).suspend).toEqual(["workers"]);
  });

  it("fails immediately for a worker whose Pod was deleted", () => {
    const workers = { ...jobOf("workers"), status: { failedIndexes: "1" } };
    const decision = decideRhinoJob(observed({ job: running, launcher: jobOf("launcher"), workers }));
    expect(decision.status).toMatchObject({ jobStatus: "Failed", message: "worker 1 was deleted" });
  });

  it.each([
    ["the launcher that was deleted", { job: rhinoJobOf({}, { status: started }) }, "LauncherDeleted"],
    [
      "the launcher that was deleted before its status was written, alongside its workers",
      { workers: jobOf("workers") },
      "LauncherDeleted",
    ],
    ["a launcher that is being deleted", { launcher: jobOf("launcher", { deleting: true }) }, "LauncherDeleted"],
    [
      "workers that are gone",
      { job: rhinoJobOf({}, { status: wasReady }), launcher: jobOf("launcher"), launcherPods: [readyLauncher] },
      "WorkersDeleted",
    ],
    ["a name that another object uses", { launcher: jobOf("launcher", { ownerUid: "other" }) }, "NameTaken"],
  ] as const)("fails for %s instead of waiting or making it again (regressions 4 and 6)", (_, rest, reason) => {
    const decision = decideRhinoJob(observed(rest));
    expect(condition(decision.status, "Failed")?.reason).toBe(reason);
    expect([decision.createLauncher, decision.createWorkers]).toEqual([undefined, undefined]);
  });

  it("does not touch another owner's Job", () => {
    const foreign = jobOf("launcher", { ownerUid: "other" });
    expect(decideRhinoJob(observed({ launcher: foreign })).suspend).toEqual([]);
    const job = rhinoJobOf({}, { status: { jobStatus: "Failed", completionTime: at(0) } });
    expect(decideRhinoJob(observed({ job, launcher: foreign })).suspend).toEqual([]);
  });
});

describe("decideRhinoJob after the end", () => {
  const ended = (ttl: number, jobStatus: "Completed" | "Failed" = "Completed") =>
    rhinoJobOf({ ttl }, { status: { jobStatus, startTime: at(0), completionTime: at(1000) } });

  it("counts the ttl from the end (regression 3)", () => {
    expect(decideRhinoJob(observed({ job: ended(600), now: t0 + 1_100_000 })).requeueAfterMs).toBe(500_000);
    expect(decideRhinoJob(observed({ job: ended(600), now: t0 + 1_599_999 })).isExpired).toBeUndefined();
    expect(decideRhinoJob(observed({ job: ended(600), now: t0 + 1_600_000 })).isExpired).toBe(true);
  });

  it("deletes the job immediately if its ttl passed while no controller ran", () => {
    expect(decideRhinoJob(observed({ job: ended(1), now: t0 + 9_999_000 })).isExpired).toBe(true);
  });

  it("keeps the job if the ttl is 0", () => {
    expect(decideRhinoJob(observed({ job: ended(0), now: t0 + 1e12 }))).toEqual({ suspend: [], events: [] });
  });

  it("stops its remaining Pods once", () => {
    const jobs = { launcher: jobOf("launcher", { end: { type: "Complete" } }), workers: jobOf("workers") };
    expect(decideRhinoJob(observed({ job: ended(0), ...jobs })).suspend).toEqual(["workers"]);
    expect(
      decideRhinoJob(observed({ job: ended(0), ...jobs, workers: jobOf("workers", { suspended: true }) })).suspend,
    ).toEqual([]);
  });
});

describe("decideRhinoJob", () => {
  const end = fc.option(
    fc.record({
      type: fc.constantFrom("Complete" as const, "Failed" as const),
      reason: fc.constantFrom("BackoffLimitExceeded", "DeadlineExceeded"),
      at: fc.nat(100),
    }),
    { nil: undefined },
  );
  const child = (type: "launcher" | "workers") =>
    fc.option(
      fc
        .record({ end, deleting: fc.boolean(), suspended: fc.boolean() })
        .map(({ end: how, ...rest }) => jobOf(type, { ...rest, ...(how ? { end: how } : {}) })),
      { nil: undefined },
    );
  const pods = (prefix: string) =>
    fc
      .array(
        fc.record({
          phase: fc.constantFrom("Pending" as const, "Running" as const, "Succeeded" as const, "Failed" as const),
          ready: fc.boolean(),
        }),
        { maxLength: 3 },
      )
      .map((list) => list.map(({ phase, ready }, index) => podOf(`${prefix}-${index}`, phase, { ready, ip: "127.5.0.1" })));
  const views = fc.array(
    fc.record({
      launcher: child("launcher"),
      workers: child("workers"),
      launcherPods: pods("l"),
      workerPods: pods("w"),
      seconds: fc.nat(2000),
    }),
    { maxLength: 8 },
  );

  it("keeps a result, deletes only ended jobs, and is Completed only after the launcher or its only Pod is", () => {
    fc.assert(
      fc.property(views, (steps) => {
        let job = rhinoJobOf({ ttl: 60 });
        let now = t0;
        for (const { seconds, ...view } of steps) {
          now += seconds * 1000;
          const before = job.status;
          const decision = decideRhinoJob({ job, ...view, now });
          const isEnd = before?.jobStatus === "Completed" || before?.jobStatus === "Failed";
          if (isEnd)
            expect([decision.status, decision.createLauncher, decision.createWorkers]).toEqual([
              undefined,
              undefined,
              undefined,
            ]);
          if (decision.isExpired) {
            expect(now - Date.parse(before?.completionTime ?? "")).toBeGreaterThanOrEqual(60_000);
            return;
          }
          if (decision.status?.jobStatus === "Completed")
            expect(
              view.launcher?.status?.conditions?.some(({ type }) => type === "Complete") === true ||
                view.launcherPods.every(({ status }) => status?.phase === "Succeeded"),
            ).toBe(true);
          if (decision.createWorkers) expect(condition(before, "WorkersCreated")?.status).not.toBe("True");
          if (decision.status) job = { ...job, status: decision.status };
        }
      }),
      { numRuns: 500 },
    );
  });
});
