import { dns1123LabelFaults, labelValueFaults } from "@keelson/api-machinery/validation";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { launcherEnvironment, podVariables } from "../launch/pod-environment.ts";
import { rhinoJobOf, uid } from "../testing/objects.ts";
import { childNames, labelValue } from "./child-names.ts";
import { launcherJob, type PodTools, workersJob } from "./job-templates.ts";

const local: PodTools = { kind: "local", command: ["/usr/bin/node", "/keelson/pod-program.js"] };
const image: PodTools = { kind: "image", image: "keelson:1" };
const names = childNames("pi", uid);

describe("checkpoints", () => {
  const before = ["sh", "-c", "echo $HOME"];
  const job = rhinoJobOf({ checkpoint: { directory: "/data/checkpoints/", preRestartCommand: before } });
  const environmentOf = (attempt: number) => {
    const children = childNames("pi", uid, attempt);
    const specs = [launcherJob(job, children, local), workersJob(job, children, "10.0.0.7", local)];
    return specs.map(({ template }) =>
      Object.fromEntries((template.spec.containers[0]?.env ?? []).map(({ name, value }) => [name, value ?? ""])),
    );
  };

  it("are in a directory that all attempts of a job and all its Pods share, alongside the number of the attempt", () => {
    for (const attempt of [1, 2])
      for (const environment of environmentOf(attempt))
        expect(environment).toMatchObject({
          KEELSON_JOB_ATTEMPT: String(attempt),
          KEELSON_JOB_CHECKPOINT_DIR: "/data/checkpoints/pi-0a1b2",
        });
  });

  it("have a command that runs before every attempt but the first", () => {
    const orders = [1, 2].map((attempt) => {
      const [environment = {}] = environmentOf(attempt);
      return launcherEnvironment({ ...environment, [podVariables.token]: "t", [podVariables.podIP]: "10.0.0.7" }).order;
    });
    expect(orders.map((order) => order.before)).toEqual([undefined, before]);
  });
});

describe("names of a RhinoJob's children", () => {
  it("are the original's if the name is short", () => {
    expect(names).toEqual({
      attempt: 1,
      job: "pi-0a1b2",
      secret: "pi-0a1b2-token",
      podGroup: "pi-0a1b2",
      policy: "pi-0a1b2-peers",
      launcher: "pi-0a1b2-launcher",
      workers: "pi-0a1b2-workers",
      hosts: "pi-0a1b2-hosts",
    });
  });

  it("are valid Pod host names and labels for any job name (regression 14)", () => {
    const name = fc.stringMatching(/^[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?$/);
    fc.assert(
      fc.property(name, (each) => {
        const { launcher, workers } = childNames(each, uid);
        expect([launcher, `${workers}-9999`].flatMap(dns1123LabelFaults)).toEqual([]);
        expect(labelValueFaults(labelValue(each))).toEqual([]);
      }),
    );
  });

  it("differ for two long names with a common prefix", () => {
    expect(childNames(`${"a".repeat(80)}-1`, uid)).not.toEqual(childNames(`${"a".repeat(80)}-2`, uid));
  });
});

describe("the launcher's Job", () => {
  it("has no retries, because a second mpiexec could not use the workers of the first (regression 6)", () => {
    const job = launcherJob(rhinoJobOf(), names, local);
    expect(job).toMatchObject({
      parallelism: 1,
      completions: 1,
      backoffLimit: 0,
      template: { spec: { restartPolicy: "Never" } },
    });
  });

  it("passes the arguments unchanged, without a shell (regression 7)", () => {
    const args = ["a b", "; rm -rf /", "$(id)", "$(KEELSON_MPI_TOKEN)"];
    const [container] = launcherJob(rhinoJobOf({ appArgs: args }), names, local).template.spec.containers;
    expect(container?.command).toEqual(["/usr/bin/node", "/keelson/pod-program.js", "launcher"]);
    const value = container?.env?.find(({ name }) => name === podVariables.order)?.value ?? "";
    expect(value).not.toContain("$(");
    const { order } = launcherEnvironment({
      [podVariables.order]: value,
      [podVariables.token]: "t",
      [podVariables.podIP]: "::1",
    });
    expect(order.command).toEqual(["./pi", ...args]);
  });

  it("gets the token from a Secret and does not contain it", () => {
    const text = JSON.stringify(launcherJob(rhinoJobOf(), names, local));
    expect(text).toContain('"secretKeyRef":{"name":"pi-0a1b2-token","key":"token"}');
  });

  it("has the original's labels and container name and no access to the API", () => {
    const { template } = launcherJob(rhinoJobOf(), names, local);
    expect(template.metadata?.labels).toEqual({ app: "pi", type: "launcher", rhinoID: uid });
    expect(template.spec).toMatchObject({
      automountServiceAccountToken: false,
      containers: [{ name: "rhino-mpi-launcher", image: "x" }],
    });
  });

  it("copies its programs into any image", () => {
    const { spec } = launcherJob(rhinoJobOf(), names, image).template;
    expect(spec.initContainers?.[0]).toMatchObject({ image: "keelson:1", volumeMounts: [{ mountPath: "/keelson" }] });
    expect(spec.containers[0]).toMatchObject({
      command: ["/keelson/keelson-mpi", "launcher"],
      volumeMounts: [{ readOnly: true }],
    });
  });
});

describe("the workers' Job", () => {
  it("is indexed with one Pod per rank and no retries (regression 5)", () => {
    const job = workersJob(rhinoJobOf({ parallelism: 4 }), names, "10.0.0.7", local);
    expect(job).toMatchObject({ completionMode: "Indexed", parallelism: 4, completions: 4, backoffLimitPerIndex: 0 });
    expect(job.template.spec.containers[0]?.env?.[0]).toEqual({ name: "KEELSON_MPI_LAUNCHER", value: "10.0.0.7:21000" });
  });

  it("has one Pod per slotsPerWorker ranks, and one less if the launcher is a worker", () => {
    const podsOf = (spec: Parameters<typeof rhinoJobOf>[0]) =>
      workersJob(rhinoJobOf(spec), names, "10.0.0.7", local).completions;
    expect(podsOf({ parallelism: 5, slotsPerWorker: 2 })).toBe(3);
    expect(podsOf({ parallelism: 5, slotsPerWorker: 2, runLauncherAsWorker: true })).toBe(2);
    expect(podsOf({ parallelism: 1, runLauncherAsWorker: true })).toBe(0);
  });

  it("counts its indexes after a launcher that is worker 0, which has its volumes too", () => {
    const job = rhinoJobOf({ runLauncherAsWorker: true, dataServer: "10.0.0.7", dataPath: "/share" });
    const [worker] = workersJob(job, names, "10.0.0.7", local).template.spec.containers;
    expect(worker?.env).toContainEqual({ name: "KEELSON_MPI_INDEX_OFFSET", value: "1" });
    const launcher = launcherJob(job, names, local).template.spec;
    expect(launcher.containers[0]?.volumeMounts).toContainEqual({ name: "data", mountPath: "/data" });
    expect(launcher.containers[0]?.env?.[0]?.value).toContain('"launcherIsWorker":true');
  });

  it("mounts the hosts if the job has a hostfile, and has names that its Service resolves", () => {
    const job = rhinoJobOf({ hostfile: true, workerTemplate: { spec: { subdomain: "mine" } } });
    const worker = workersJob(job, names, "10.0.0.7", image).template.spec;
    expect(worker).toMatchObject({ subdomain: names.hosts });
    expect(worker.volumes).toContainEqual({ name: "keelson-hosts", configMap: { name: names.hosts, defaultMode: 0o555 } });
    expect(worker.containers[0]?.volumeMounts).toContainEqual({ name: "keelson-hosts", mountPath: "/etc/mpi" });
    const launcher = launcherJob(job, names, image).template.spec;
    expect(launcher).toMatchObject({ subdomain: names.hosts, hostname: names.launcher });
  });

  it("encloses an IPv6 address in brackets", () => {
    const job = workersJob(rhinoJobOf(), names, "fd00::7", local);
    expect(job.template.spec.containers[0]?.env?.[0]?.value).toBe("[fd00::7]:21000");
  });

  it("mounts the NFS volume at /data, and the launcher does not", () => {
    const job = rhinoJobOf({ dataServer: "10.0.0.7", dataPath: "/share" });
    const { spec } = workersJob(job, names, "10.0.0.1", image).template;
    expect(spec.volumes).toContainEqual({ name: "data", nfs: { server: "10.0.0.7", path: "/share" } });
    expect(spec.containers[0]?.volumeMounts).toContainEqual({ name: "data", mountPath: "/data" });
    expect(JSON.stringify(launcherJob(job, names, image))).not.toContain("nfs");
  });

  it.each([
    ["FixedPerCoreMemory", 5, "1-5Gi"],
    ["FixedTotalMemory", 5, "1-3Gi"],
  ] as const)(
    "asks for memory as the original does: %s of %i is %s",
    (memoryAllocationMode, memoryAllocationSize, expected) => {
      const { metadata } = workersJob(
        rhinoJobOf({ memoryAllocationMode, memoryAllocationSize }),
        names,
        "10.0.0.1",
        local,
      ).template;
      expect(metadata?.annotations).toEqual({ "k8s.aliyun.com/eci-use-specs": expected });
    },
  );
});
