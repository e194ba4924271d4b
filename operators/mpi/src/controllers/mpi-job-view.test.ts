import { readFileSync } from "node:fs";
import type { DeepReadonly } from "@keelson/api-machinery";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import type { MPIJob } from "../api/mpi-job.ts";
import { launcherEnvironment, podVariables } from "../launch/pod-environment.ts";
import { childNames } from "../children/child-names.ts";
import { hostsData } from "../children/hosts.ts";
import { launcherJob, type PodTools, workersJob } from "../children/job-templates.ts";
import { mpiJobFault, viewOfMpiJob } from "./mpi-job-view.ts";

const manifest = parse(readFileSync(new URL("../../testdata/mpi-job.yaml", import.meta.url), "utf8")) as MPIJob;
const uid = "0a1b2c3d-0000-4000-8000-000000000001";
const names = childNames("pi", uid);
const image: PodTools = { kind: "image", image: "keelson:1" };
const local: PodTools = { kind: "local", command: ["/usr/bin/node", "/keelson/pod-program.js"] };

/** The manifest's job with other fields of its spec. */
const jobOf = (spec: Partial<MPIJob["spec"]> = {}): DeepReadonly<MPIJob> => ({
  ...manifest,
  metadata: { ...manifest.metadata, uid },
  spec: { ...manifest.spec, ...spec },
});
const view = (spec: Partial<MPIJob["spec"]> = {}) => viewOfMpiJob(jobOf(spec));

function orderOf(spec: Partial<MPIJob["spec"]> = {}) {
  const [container] = launcherJob(view(spec), names, image).template.spec.containers;
  const value = container?.env?.find(({ name }) => name === podVariables.order)?.value ?? "";
  return launcherEnvironment({ [podVariables.order]: value, [podVariables.token]: "t", [podVariables.podIP]: "::1" }).order;
}

describe("an MPIJob", () => {
  it("runs the launcher's command in a session with the workers as hosts", () => {
    expect(orderOf()).toMatchObject({
      command: ["mpirun", "-n", "4", "/home/mpiuser/pi"],
      slots: 2,
      hosts: [0, 1].map((index) => `pi-0a1b2-workers-${index}.pi-0a1b2-hosts.default.svc`),
    });
  });

  it("takes the arguments as the command if there is none, because entry points of such images execute them", () => {
    const { Launcher, Worker } = manifest.spec.mpiReplicaSpecs;
    const template = { spec: { containers: [{ name: "l", image: "x", args: ["mpirun", "-n", "2", "./pi"] }] } };
    const mpiReplicaSpecs = { Launcher: { ...Launcher, template }, ...(Worker === undefined ? {} : { Worker }) };
    expect(orderOf({ mpiReplicaSpecs }).command).toEqual(["mpirun", "-n", "2", "./pi"]);
    expect(mpiJobFault(jobOf({ mpiReplicaSpecs }))).toBeUndefined();
  });

  it("cannot run without a command or arguments", () => {
    const template = { spec: { containers: [{ name: "l", image: "x" }] } };
    const fault = mpiJobFault(jobOf({ mpiReplicaSpecs: { Launcher: { template } } }));
    expect(fault).toContain("containers[0].command: Required value");
  });

  it("has the Pods of its templates, without the command and probe of the workers' SSH server", () => {
    const worker = workersJob(view(), names, "10.0.0.7", image);
    expect(worker.completions).toBe(2);
    expect(worker.template.metadata?.labels).toMatchObject({
      team: "physics",
      "training.kubeflow.org/job-name": "pi",
      "training.kubeflow.org/job-role": "worker",
      "training.kubeflow.org/operator-name": "mpi-operator",
    });
    const [container] = worker.template.spec.containers;
    expect(container).toMatchObject({
      name: "mpi-worker",
      image: "registry.example/pi-worker:openmpi",
      command: ["/keelson/keelson-mpi", "worker"],
      securityContext: { runAsUser: 1000 },
      resources: { limits: { cpu: "1", memory: "1Gi" } },
    });
    expect([container?.args, container?.readinessProbe]).toEqual([undefined, undefined]);
    const [launcher] = launcherJob(view(), names, image).template.spec.containers;
    expect(launcher).toMatchObject({ name: "mpi-launcher", image: "registry.example/pi:openmpi" });
    expect(launcher?.args).toBeUndefined();
    expect(JSON.stringify(worker)).not.toContain("alibaba");
  });

  it("mounts its hostfile and discover_hosts.sh, except in Pods that are processes", () => {
    const mounts = (tools: PodTools) =>
      workersJob(view(), names, "10.0.0.7", tools).template.spec.containers[0]?.volumeMounts ?? [];
    expect(mounts(image)).toContainEqual({ name: "keelson-hosts", mountPath: "/etc/mpi" });
    expect(mounts(local)).toEqual([]);
  });

  it.each([
    [{}, [0, 1].map((index) => `pi-0a1b2-workers-${index}.pi-0a1b2-hosts.default.svc slots=2\n`)],
    [
      { runLauncherAsWorker: true, slotsPerWorker: 1 },
      ["launcher", "workers-0", "workers-1"].map((name) => `pi-0a1b2-${name}.pi-0a1b2-hosts.default.svc slots=1\n`),
    ],
    [
      { mpiImplementation: "MPICH" as const },
      [0, 1].map((index) => `pi-0a1b2-workers-${index}.pi-0a1b2-hosts.default.svc:2\n`),
    ],
    [
      { mpiImplementation: "Intel" as const },
      [0, 1].map((index) => `pi-0a1b2-workers-${index}.pi-0a1b2-hosts.default.svc:2\n`),
    ],
  ])("has the hostfile of its implementation, slots and hosts: %j", (spec, lines) => {
    expect(hostsData(view(spec), names, []).hostfile).toBe(lines.join(""));
  });

  it("counts a launcher that is a worker as the first host", () => {
    expect(orderOf({ runLauncherAsWorker: true })).toMatchObject({ launcherIsWorker: true, ranks: 6 });
    expect(workersJob(view({ runLauncherAsWorker: true }), names, "10.0.0.7", image).completions).toBe(2);
  });

  it("may have a launcher only", () => {
    const { Launcher } = manifest.spec.mpiReplicaSpecs;
    expect(orderOf({ mpiReplicaSpecs: { Launcher } }).hosts).toEqual([]);
    expect(workersJob(view({ mpiReplicaSpecs: { Launcher } }), names, "10.0.0.7", image).completions).toBe(0);
  });

  it("starts its command when all workers have joined, with launcherCreationPolicy WaitForWorkersReady", () => {
    expect(orderOf().waitsForWorkers).toBeUndefined();
    expect(orderOf({ launcherCreationPolicy: "WaitForWorkersReady" }).waitsForWorkers).toBe(true);
  });

  it("is retried six times and keeps its Pods by default, and is deleted only with ttlSecondsAfterFinished", () => {
    const { runPolicy, ttl } = view({ runPolicy: {} }).spec;
    expect({ runPolicy, ttl }).toEqual({ runPolicy: { cleanPodPolicy: "None", backoffLimit: 6 }, ttl: 0 });
    expect(view().spec.runPolicy).toMatchObject({ cleanPodPolicy: "Running", ttlSecondsAfterFinished: 60 });
  });
});
