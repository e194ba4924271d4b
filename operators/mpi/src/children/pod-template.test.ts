import { describe, expect, it } from "vitest";
import { rhinoJobOf } from "../testing/objects.ts";
import { childNames } from "./child-names.ts";
import { workersJob } from "./job-templates.ts";

const names = childNames("pi", "0a1b2c3d");
const tools = { kind: "local", command: ["node", "pod-program.js"] } as const;
const podOf = (workerTemplate: object) => workersJob(rhinoJobOf({ workerTemplate }), names, "10.0.0.1", tools).template;

describe("a worker template", () => {
  it("adds environment, resources, volumes, node selector and security context to the workers' Pods", () => {
    const { metadata, spec } = podOf({
      metadata: { labels: { team: "physics" } },
      spec: {
        nodeSelector: { gpu: "a100" },
        securityContext: { runAsUser: 1000 },
        volumes: [{ name: "data", persistentVolumeClaim: { claimName: "data" } }],
        containers: [
          {
            name: "rhino-mpi-worker",
            env: [{ name: "OMP_NUM_THREADS", value: "4" }],
            resources: { limits: { "nvidia.com/gpu": "1" } },
            volumeMounts: [{ name: "data", mountPath: "/input" }],
          },
          { name: "monitor", image: "monitor" },
        ],
      },
    });
    expect(metadata?.labels).toMatchObject({ team: "physics", type: "worker" });
    expect(spec).toMatchObject({ nodeSelector: { gpu: "a100" }, securityContext: { runAsUser: 1000 }, restartPolicy: "Never" });
    expect(spec.volumes).toContainEqual({ name: "data", persistentVolumeClaim: { claimName: "data" } });
    const [worker, monitor] = spec.containers;
    expect(worker).toMatchObject({
      command: ["node", "pod-program.js", "worker"],
      resources: { limits: { "nvidia.com/gpu": "1" } },
      volumeMounts: [{ name: "data", mountPath: "/input" }],
    });
    expect(worker?.env).toContainEqual({ name: "OMP_NUM_THREADS", value: "4" });
    expect(monitor).toEqual({ name: "monitor", image: "monitor" });
  });

  it("cannot replace what the launch needs", () => {
    const { metadata, spec } = podOf({
      metadata: { labels: { rhinoID: "other" } },
      spec: {
        restartPolicy: "Always",
        containers: [{ command: ["sh"], env: [{ name: "KEELSON_MPI_TOKEN", value: "x" }] }],
      },
    });
    expect(metadata?.labels?.rhinoID).not.toBe("other");
    expect(spec.restartPolicy).toBe("Never");
    expect(spec.containers).toHaveLength(1);
    expect(spec.containers[0]?.command).toEqual(["node", "pod-program.js", "worker"]);
    expect(spec.containers[0]?.env?.filter(({ name }) => name === "KEELSON_MPI_TOKEN")).toEqual([
      { name: "KEELSON_MPI_TOKEN", valueFrom: expect.anything() },
    ]);
  });
});
