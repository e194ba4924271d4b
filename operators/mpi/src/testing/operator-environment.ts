import type { DeepReadonly } from "@keelson/api-machinery";
import { type CustomResourceDefinitionObject, Job, Node, Pod, type PodObject } from "@keelson/api-machinery/kinds";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { watched } from "@keelson/client/testing";
import { type Logger, silentLogger } from "@keelson/controller";
import { type RunningOperator, startOperator } from "@keelson/operator";
import type { FlagValues } from "@keelson/operator/flags";
import { RhinoJob } from "../api/rhino-job.ts";
import { mpi } from "../operator.ts";

/** Namespace of the objects in tests. */
export const namespace = "default";

/** Names of a RhinoJob's or MPIJob's children of its first attempt. */
export function namesOf({ metadata }: { readonly metadata: { readonly name?: string; readonly uid?: string } }) {
  const prefix = `${metadata.name}-${metadata.uid?.slice(0, 5)}`;
  return { launcher: `${prefix}-launcher`, workers: `${prefix}-workers`, secret: `${prefix}-token`, policy: `${prefix}-peers` };
}

/** Status of a launcher that workers can join. */
export const readyPod = {
  phase: "Running" as const,
  podIP: "127.5.0.1",
  conditions: [{ type: "Ready", status: "True" as const }],
};

/** An API server with the operator, where the test does what the Job controller and the kubelet do. */
export class OperatorEnvironment {
  readonly environment: TestEnvironment;
  readonly client: Client;
  readonly #flags: FlagValues;
  #operator: RunningOperator | undefined;

  private constructor(environment: TestEnvironment, flags: FlagValues) {
    this.environment = environment;
    this.#flags = flags;
    this.client = createClient({ transport: environment.transport(), fieldManager: "test" });
  }

  /** Starts both. `crds`: further kinds to serve. `flags`: those of the operator. */
  static async start({
    crds = [],
    flags = {},
  }: {
    crds?: readonly CustomResourceDefinitionObject[];
    flags?: FlagValues;
  } = {}): Promise<OperatorEnvironment> {
    const all = [...mpi.resources.map(({ crd }) => crd), ...crds];
    const result = new OperatorEnvironment(await startTestEnvironment({ crds: all }), flags);
    await result.startOperator();
    return result;
  }

  async startOperator(client = this.client, logger: Logger = silentLogger): Promise<void> {
    this.#operator = await startOperator({ operator: mpi, client, dataDir: "/nonexistent", flags: this.#flags, logger });
  }

  async stopOperator(): Promise<void> {
    await this.#operator?.stop();
    this.#operator = undefined;
  }

  async stop(): Promise<void> {
    await this.stopOperator();
    await this.environment.stop();
  }

  /** Creates a RhinoJob of two ranks. */
  create(spec: Partial<RhinoJob["spec"]> = {}, name = "pi", labels = {}): Promise<DeepReadonly<RhinoJob>> {
    const full = { image: "x", appExec: "./pi", parallelism: 2, ...spec } as RhinoJob["spec"];
    return this.client.create(RhinoJob, { metadata: { name, namespace, labels }, spec: full });
  }

  /** Waits until a RhinoJob is as required. */
  reached(isReached: (job: DeepReadonly<RhinoJob> | undefined) => boolean, name = "pi") {
    return watched(this.client, RhinoJob, name, isReached);
  }

  /** Creates a ready node. */
  async addNode(name: string, allocatable: Record<string, string>): Promise<void> {
    await this.client.create(Node, { metadata: { name } });
    const status = { allocatable, conditions: [{ type: "Ready", status: "True" }] };
    await this.client.patch(Node, { name }, { type: "merge", body: { status } }, { subresource: "status" });
  }

  /** Creates a Pod of a Job, in this state. */
  async pod(owner: string, name: string, status: NonNullable<PodObject["status"]>, nodeName?: string): Promise<void> {
    const job = await this.client.get(Job, { namespace, name: owner });
    const index = /-w-(\d+)$/.exec(name)?.[1];
    await this.client.create(Pod, {
      metadata: {
        name,
        namespace,
        ...(index === undefined ? {} : { annotations: { "batch.kubernetes.io/job-completion-index": index } }),
        labels: { ...job.spec.template.metadata?.labels },
        ownerReferences: [{ apiVersion: "batch/v1", kind: "Job", name: owner, uid: job.metadata.uid ?? "", controller: true }],
      },
      spec: { ...job.spec.template.spec, ...(nodeName === undefined ? {} : { nodeName }) },
    });
    const counted = { status: { active: (job.status?.active ?? 0) + 1 } };
    await this.client.patch(Job, { namespace, name: owner }, { type: "merge", body: counted }, { subresource: "status" });
    await this.setPod(name, status);
  }

  async setPod(name: string, status: NonNullable<PodObject["status"]>): Promise<void> {
    await this.client.patch(Pod, { namespace, name }, { type: "merge", body: { status } }, { subresource: "status" });
  }

  /** Ends a Job. */
  async endJob(name: string, type: "Complete" | "Failed", reason: string): Promise<void> {
    const now = new Date().toISOString().replace(/\.\d+Z/, "Z");
    const condition = (each: string) => ({
      type: each,
      status: "True",
      reason,
      message: "",
      lastTransitionTime: now,
      lastProbeTime: now,
    });
    const before = type === "Complete" ? "SuccessCriteriaMet" : "FailureTarget";
    const status =
      type === "Complete"
        ? { active: 0, succeeded: 1, startTime: now, completionTime: now, conditions: [condition(before), condition(type)] }
        : { active: 0, failed: 1, startTime: now, conditions: [condition(before), condition(type)] };
    await this.client.patch(Job, { namespace, name }, { type: "merge", body: { status } }, { subresource: "status" });
  }
}
