import { readFileSync } from "node:fs";
import { type DeepReadonly, draft, type KubernetesObject } from "@keelson/api-machinery";
import type { ConfigMapObject, PodObject, ServiceObject } from "@keelson/api-machinery/kinds";
import { formatTime } from "@keelson/api-machinery/time";
import { describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import type { Group, GroupSpec, GroupStatus } from "../../api/group.ts";
import { labels } from "../../api/names.ts";
import type { Plugin } from "../../plugin/plugin.ts";
import { readPlugin } from "../../plugin/read-plugin.ts";
import { renderGroup } from "../../plugin/render-group.ts";
import { decideGroup } from "../group/group-decision.ts";
import { heldRollout } from "../group/rollout-status.ts";

const [configMap] = parseAllDocuments(
  readFileSync(new URL("../../../../../examples/middleware/web.yaml", import.meta.url), "utf8"),
);
const plugin: Plugin = readPlugin(configMap?.toJSON() as ConfigMapObject);

const operation = (token: string, scenario: "provision" | "update" = "update") => ({ operation: { token, scenario } });
const spec: GroupSpec = {
  componentRef: { name: "web-server" },
  pluginRef: { name: "web-v1.0.0" },
  plugin: { name: "web", version: "1.0.0" },
  runtime: { name: "python", version: "3" },
  replicas: 4,
  rollingUpdate: { maxUnavailable: 2 },
  ...operation("plan/1/1", "provision"),
};

/** A Group of the example's plugin, whose effects are performed in memory. Pods start when the test says so. */
class Cluster {
  spec = spec;
  status: GroupStatus = {};
  readonly annotations: Record<string, string> = {};
  readonly pods = new Map<string, PodObject>();
  readonly configs = new Map<string, ConfigMapObject>();
  /** Names of deleted Pods, those of one decision together. */
  readonly deleted: string[][] = [];
  now = Date.UTC(2026, 0, 1);
  requeueAfterMs: number | undefined;
  services: ServiceObject[] = [];
  #uids = 0;

  get group(): DeepReadonly<Group> {
    return {
      apiVersion: "middleware.io/v1alpha1",
      kind: "Group",
      metadata: {
        ...{ name: "web-server-pods", namespace: "default", uid: "group", annotations: this.annotations },
        labels: { [labels.app]: "web", [labels.component]: "server" },
      },
      ...{ spec: this.spec, status: this.status },
    };
  }

  /** Decides and performs until nothing changes. */
  settle(): this {
    for (let round = 0; round < 100; round += 1) if (!this.#step()) return this;
    throw new Error(`not settled: ${JSON.stringify(this.status)}`);
  }

  #step(): boolean {
    const { group } = this;
    const held = heldRollout(group, () => plugin);
    if (held !== undefined && "problem" in held) throw new Error(held.problem);
    const { effects, requeueAfterMs } = decideGroup({
      ...{ group, rendered: renderGroup(group, plugin, [], { held }), claims: [], roles: new Map(), now: this.now },
      ...{ pods: [...this.pods.values()], configs: [...this.configs.values()], services: this.services },
    });
    this.requeueAfterMs = requeueAfterMs;
    const deleted: string[] = [];
    for (const effect of effects) {
      if (effect.kind === "status") this.status = draft(effect.status) as GroupStatus;
      else if (effect.kind === "apply") this.#apply(draft(effect.object) as KubernetesObject);
      else if (effect.kind === "delete") {
        deleted.push(effect.key.name);
        this.pods.delete(effect.key.name);
      } else throw new Error(`unexpected ${effect.kind}`);
    }
    if (deleted.length > 0) this.deleted.push(deleted.map((name) => name.slice(-1)));
    return effects.length > 0;
  }

  #apply(object: KubernetesObject): void {
    const { name = "" } = object.metadata;
    if (object.kind === "Pod") {
      this.#uids += 1;
      const pod = object as PodObject;
      this.pods.set(name, { ...pod, metadata: { ...pod.metadata, uid: `uid-${this.#uids}` }, status: { phase: "Pending" } });
    } else if (object.kind === "ConfigMap") this.configs.set(name, object as ConfigMapObject);
    else this.services = [...this.services.filter(({ metadata }) => metadata.name !== name), object as ServiceObject];
  }

  /** The kubelet reports that Pods serve: all, or those with these ordinals. */
  ready(...ordinals: readonly number[]): this {
    for (const [name, pod] of this.pods) {
      if (ordinals.length > 0 && !ordinals.includes(Number(name.slice(-1)))) continue;
      pod.status = { phase: "Running", conditions: [{ type: "Ready", status: "True" }] };
    }
    return this.settle();
  }

  /** Changes the spec with a new operation. */
  change(token: string, change: Partial<GroupSpec>): this {
    this.spec = { ...this.spec, ...change, ...operation(token) };
    return this.settle();
  }

  titles(): readonly string[] {
    return [...this.configs.values()].map(({ data }) => data?.["index.html"]?.replace(/<\/?h1>|\n/g, "") ?? "");
  }
}

const provisioned = (): Cluster => new Cluster().settle().ready();

describe("a group without agents", () => {
  it("starts all Pods, and is done when the kubelet reports them ready", () => {
    const cluster = new Cluster().settle();
    expect(cluster.pods.size).toBe(4);
    expect(cluster.status).toMatchObject({ phase: "Updating", operation: { phase: "Running" } });
    cluster.ready(0, 1, 2);
    expect(cluster.status.operation).toMatchObject({ phase: "Running", message: "waiting for web-server-pods-3 to be ready" });
    cluster.ready();
    expect(cluster.status).toMatchObject({ phase: "Running", readyReplicas: 4, currentVersion: "3", updatedReplicas: 4 });
    expect(cluster.status.pods?.[0]?.role).toBeUndefined();
  });

  it("replaces the first Pod alone and the others in batches, each when the previous one is ready", () => {
    const cluster = provisioned().change("plan/2/1", { config: { title: "Next" } });
    expect(cluster.deleted).toEqual([["3"]]);
    cluster.ready();
    expect(cluster.deleted).toEqual([["3"], ["1", "2"]]);
    cluster.ready(2);
    expect(cluster.deleted).toHaveLength(2);
    cluster.ready().ready();
    expect(cluster.deleted).toEqual([["3"], ["1", "2"], ["0"]]);
    expect(cluster.titles()).toEqual(["Next", "Next", "Next", "Next"]);
    expect(cluster.status.operation).toMatchObject({ phase: "Succeeded", disruptions: { restarts: 4, switchovers: 0 } });
  });

  it("fails with the output of a canary that does not start, and replaces only it when the change is reverted", () => {
    const cluster = provisioned().change("plan/2/1", { config: { bind: "203.0.113.1" } });
    const canary = cluster.pods.get("web-server-pods-3");
    if (canary === undefined) throw new Error("no canary");
    const state = { waiting: { reason: "CrashLoopBackOff" } };
    const lastState = { terminated: { exitCode: 1, message: "OSError: Cannot assign requested address\n" } };
    canary.status = { phase: "Running", containerStatuses: [{ name: "server", restartCount: 2, state, lastState }] } as never;
    cluster.settle();
    const message = "web-server-pods-3 does not start: OSError: Cannot assign requested address";
    expect(cluster.status.operation).toMatchObject({ phase: "Failed", errorClass: "Config", message });
    cluster.change("plan/2/1/revert", { config: {} });
    cluster.ready();
    expect(cluster.deleted).toEqual([["3"], ["3"]]);
    expect(cluster.status.operation?.phase).toBe("Succeeded");
  });

  it("replaces a Pod that was evicted, and changes nothing else without an operation", () => {
    const cluster = provisioned();
    const evicted = cluster.pods.get("web-server-pods-1");
    if (evicted !== undefined) evicted.status = { phase: "Failed" };
    cluster.settle();
    expect(cluster.deleted).toEqual([["1"]]);
    expect(cluster.status).toMatchObject({ phase: "Degraded", message: "waiting for web-server-pods-1 to be ready" });
    cluster.ready();
    expect(cluster.status).toMatchObject({ phase: "Running", disruptions: { restarts: 1 } });
  });

  it("replaces a Pod that ends repeatedly with exponential backoff, visible in its status", () => {
    const cluster = provisioned();
    const name = "web-server-pods-1";
    /** How long the next replacement waits after the Pod was rejected. */
    const reject = (): number => {
      const pod = cluster.pods.get(name);
      if (pod !== undefined) pod.status = { phase: "Failed", reason: "OutOfcpu" };
      cluster.settle();
      const waitMs = cluster.requeueAfterMs ?? 0;
      if (waitMs > 0) {
        const at = formatTime(cluster.now + waitMs);
        expect(cluster.status.message).toContain(`${name} has ended`);
        expect(cluster.status.message).toContain(`replacing it at ${at} (OutOfcpu)`);
        cluster.now += waitMs - 1_000;
        cluster.settle();
        expect(cluster.pods.get(name)?.status?.phase).toBe("Failed");
        cluster.now += 1_000;
        cluster.settle();
      }
      expect(cluster.pods.get(name)?.status?.phase).toBe("Pending");
      return waitMs / 1_000;
    };
    expect(Array.from({ length: 8 }, reject)).toEqual([0, 10, 20, 40, 80, 160, 300, 300]);
    expect(cluster.status.replacements).toMatchObject([{ pod: name, failures: 8 }]);
    cluster.ready();
    expect(cluster.status).toMatchObject({ phase: "Running" });
    cluster.now += 600_000;
    expect(reject()).toBe(0);
  });

  it("replaces a Pod of an earlier revision without backoff", () => {
    const cluster = provisioned();
    const fail = (): Cluster => {
      for (const pod of cluster.pods.values()) if (pod.metadata.name === "web-server-pods-3") pod.status = { phase: "Failed" };
      return cluster.settle();
    };
    fail();
    fail();
    expect(cluster.deleted).toEqual([["3"]]);
    cluster.change("plan/2/1", { config: { title: "Next" } });
    expect(cluster.deleted).toEqual([["3"], ["3"]]);
  });

  it("changes the port of its Service after its Pods", () => {
    const cluster = provisioned();
    const targets = () => cluster.services.map(({ spec }) => JSON.stringify(spec));
    cluster.change("plan/2/1", { values: { port: 9090 } });
    expect(targets()).toEqual([expect.not.stringContaining("9090")]);
    cluster.ready().ready().ready();
    expect(targets()).toEqual([expect.stringContaining("9090")]);
    expect(cluster.status.operation).toMatchObject({ phase: "Succeeded", message: "done" });
  });

  it("removes superfluous Pods, and all of them when it is stopped", () => {
    const cluster = provisioned().change("plan/2/1", { replicas: 2 });
    expect(cluster.deleted).toEqual([["2", "3"]]);
    cluster.change("plan/3/1", { stopped: true });
    expect(cluster.pods.size).toBe(0);
    expect(cluster.status).toMatchObject({ phase: "Stopped", operation: { phase: "Succeeded" } });
  });

  it("refuses requests that need a primary or an agent", () => {
    const cluster = provisioned();
    cluster.annotations["middleware.io/switchover-control"] = '{"id":"s"}';
    cluster.settle();
    expect(cluster.status.switchoverControl).toEqual({ id: "s", result: "refused: there is no primary" });
    cluster.annotations["middleware.io/restart-control"] = '{"id":"r","pod":"web-server-pods-1","rebuild":true}';
    cluster.settle();
    expect(cluster.status.restartControl?.result).toMatch(/^refused: Pods without agents cannot be rebuilt/);
  });
});

describe("a partition", () => {
  it("changes only Pods from its ordinal on, and continues when it is lowered", () => {
    const cluster = provisioned().change("plan/2/1", { config: { title: "Next" }, rollingUpdate: { partition: 2 } });
    cluster.ready().ready();
    expect(cluster.deleted).toEqual([["3"], ["2"]]);
    expect(cluster.titles()).toEqual(["Hello", "Hello", "Next", "Next"]);
    const message = "done; partition 2 holds 2 of 4 Pods";
    expect(cluster.status).toMatchObject({ updatedReplicas: 2, operation: { phase: "Succeeded", message } });
    expect(cluster.status.currentRevision).not.toBe(cluster.status.updateRevision);

    cluster
      .change("plan/3/1", { rollingUpdate: { partition: 0 } })
      .ready()
      .ready();
    expect(cluster.deleted).toEqual([["3"], ["2"], ["1"], ["0"]]);
    expect(cluster.status.updatedReplicas).toBe(4);
    expect(cluster.status.currentRevision).toBe(cluster.status.updateRevision);
  });

  it("starts a lost Pod below it with the revision before", () => {
    const cluster = provisioned()
      .change("plan/2/1", { config: { title: "Next" }, rollingUpdate: { partition: 3 } })
      .ready();
    cluster.pods.delete("web-server-pods-0");
    cluster.settle().ready();
    expect(cluster.titles()).toEqual(["Hello", "Hello", "Hello", "Next"]);
    expect(cluster.status).toMatchObject({ phase: "Running", updatedReplicas: 1 });
  });

  it.each<[string, Partial<GroupSpec>, Partial<GroupSpec>]>([
    ["a stop", { stopped: true }, { stopped: false }],
    ["a scale to zero", { replicas: 0 }, { replicas: 4 }],
  ])("holds the same Pods after %s", (_, away, back) => {
    const cluster = provisioned()
      .change("plan/2/1", { config: { title: "Next" }, rollingUpdate: { partition: 2 } })
      .ready()
      .ready();
    const { completed, currentRevision } = cluster.status;
    cluster.change("plan/3/1", away);
    expect(cluster.pods.size).toBe(0);
    expect(cluster.status).toMatchObject({ completed, currentRevision, operation: { phase: "Succeeded" } });
    cluster.change("plan/4/1", back).ready();
    expect(cluster.titles()).toEqual(["Hello", "Hello", "Next", "Next"]);
    expect(cluster.status).toMatchObject({ completed, updatedReplicas: 2, operation: { phase: "Succeeded" } });
    cluster
      .change("plan/5/1", { rollingUpdate: { partition: 0 } })
      .ready()
      .ready();
    expect(cluster.titles()).toEqual(["Next", "Next", "Next", "Next"]);
    expect(cluster.status.completed).not.toEqual(completed);
  });

  it("keeps Pods that were changed before it is raised, and returns all to the revision before when the change is reverted", () => {
    const cluster = provisioned()
      .change("plan/2/1", { config: { title: "Next" }, rollingUpdate: { partition: 2 } })
      .ready()
      .ready();
    cluster.change("plan/3/1", { rollingUpdate: { partition: 4 } }).ready();
    expect(cluster.deleted).toHaveLength(2);
    cluster.change("plan/3/2", { config: {} }).ready().ready().ready();
    expect(cluster.titles()).toEqual(["Hello", "Hello", "Hello", "Hello"]);
    expect(cluster.status.updatedReplicas).toBe(4);
  });
});
