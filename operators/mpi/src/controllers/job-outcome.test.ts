import type { PodObject } from "@keelson/api-machinery/kinds";
import { describe, expect, it } from "vitest";
import { podVariables } from "../launch/pod-environment.ts";
import { jobOf, rhinoJobOf, t0 } from "../testing/objects.ts";
import { decideRhinoJob } from "./rhino-job-decision.ts";
import { launcherOutcome } from "./job-outcome.ts";
import { exitCodeOf } from "./pod-trouble.ts";

const job = { ...jobOf("launcher"), status: { active: 1 } };
const ended = (exitCode: number) => ({ terminated: { exitCode } });
/** A Pod whose launcher has a container alongside it. The kubelet sorts their statuses by name. */
const pod = (phase: string, launcher: object, beside: object): PodObject => {
  const status = { ...{ ready: false, restartCount: 0, image: "x", imageID: "" } };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "pi-launcher", namespace: "default" },
    spec: {
      containers: [
        { name: "injected", image: "x" },
        { name: "rhino-mpi-launcher", image: "x", env: [{ name: podVariables.token, value: "t" }] },
      ],
    },
    status: {
      phase,
      containerStatuses: [
        { ...status, name: "injected", state: beside },
        { ...status, name: "rhino-mpi-launcher", state: launcher },
      ],
    },
  } as PodObject;
};
const running = { running: {} };

describe("the outcome of a launcher with other containers in its Pod", () => {
  it("is that of the launcher, even while the others run", () => {
    expect(launcherOutcome(job, [pod("Running", running, running)])).toBeUndefined();
    expect(launcherOutcome(job, [pod("Running", ended(0), running)])).toEqual({ kind: "complete" });
    expect(launcherOutcome(job, [pod("Running", ended(3), running)])).toMatchObject({ kind: "failed" });
    expect(launcherOutcome(job, [pod("Running", running, ended(3))])).toBeUndefined();
  });

  it("has the launcher's exit status", () => {
    expect(exitCodeOf(pod("Failed", ended(3), ended(0)))).toBe(3);
    expect(exitCodeOf(pod("Running", running, ended(1)))).toBeUndefined();
  });

  it("is a failure if the Pod failed", () => {
    expect(launcherOutcome(job, [pod("Failed", ended(0), ended(1))])).toMatchObject({ kind: "failed" });
  });

  it("ends the job, and keeps the launcher's Pod with the output", () => {
    const launcherPods = [pod("Running", ended(0), running)];
    const status = { startTime: "2026-01-01T00:00:00Z", attempt: 1, jobStatus: "Running" as const };
    const observation = {
      job: rhinoJobOf({}, { status }),
      launcher: job,
      workers: undefined,
      launcherPods,
      workerPods: [],
      now: t0,
    };
    expect(decideRhinoJob(observation)).toMatchObject({ status: { jobStatus: "Completed", exitCode: 0 }, suspend: [] });
    const failed = { ...observation, launcherPods: [pod("Running", ended(3), running)] };
    expect(decideRhinoJob(failed)).toMatchObject({ status: { jobStatus: "Failed", exitCode: 3 }, suspend: [] });
    // The next attempt needs the Pod to end.
    const retried = { ...failed, job: rhinoJobOf({ runPolicy: { backoffLimit: 1 } }, { status }) };
    expect(decideRhinoJob(retried)).toMatchObject({ status: { failures: 1 }, suspend: ["launcher"] });
  });
});
