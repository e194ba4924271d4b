import { statusError } from "@keelson/api-machinery";
import { RuntimeClass } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import {
  type IsolationApi,
  isolationSources,
  podIsolation,
  type PodIsolationOptions,
  type PodIsolationStep,
  type PodRuntimes,
  type RequestUser,
} from "@keelson/cluster";
import { choiceFlag, UsageError } from "@keelson/operator/flags";

/** The flag for the runtime of Pods without a RuntimeClass. */
export const podRuntimeFlag = choiceFlag({
  name: "pod-runtime",
  value: "RUNTIME",
  choices: ["process", "bubblewrap", "containerd"],
  description:
    "runtime of Pods without a runtimeClassName: process, bubblewrap or containerd; process applies only to users with verb use on runtimeclasses",
  default: "process",
});

/** The runtime of Pods without a RuntimeClass. */
export type PodRuntimeName = "process" | "bubblewrap" | "containerd";

type IsolationSources = Pick<PodIsolationOptions, "mayUse" | "handlerOf" | "ownerOf"> & {
  readonly handlers: () => Promise<readonly string[]>;
};

/** Isolates Pods of users who may not run processes of the node. The API server needs the step before it starts. */
export class PodIsolation {
  #sources: IsolationSources | undefined;
  /** The admission step. It rejects writes of Pods until {@link connect}. */
  readonly step: PodIsolationStep;

  constructor(defaultRuntime: PodRuntimeName) {
    this.step = podIsolation({
      mayUse: (user, runtimeClass) => this.#connected.mayUse(user, runtimeClass),
      handlerOf: (runtimeClass) => this.#connected.handlerOf(runtimeClass),
      ownerOf: (namespace, reference) => this.#connected.ownerOf(namespace, reference),
      handlers: async () => [defaultRuntime, ...(await this.#connected.handlers())],
    });
  }

  /** Reads permissions, owners and the node's runtimes from this server. `client` needs full read access. */
  connect(api: IsolationApi, client: Client): void {
    this.#sources = {
      ...isolationSources(api, client),
      // The node publishes a RuntimeClass for each of its runtimes.
      handlers: async () => (await client.list(RuntimeClass)).items.map(({ handler }) => handler),
    };
  }

  /** Whether a user may run commands in bare processes. */
  mayUseProcess(user: RequestUser): boolean {
    return this.#sources?.mayUse(user, "process") ?? false;
  }

  get #connected(): IsolationSources {
    if (this.#sources === undefined) throw statusError("ServiceUnavailable", "the server is starting");
    return this.#sources;
  }
}

/** Rejects a default runtime that the machine does not have; containerd may start later. Throws a {@link UsageError}. */
export function requirePodRuntime(name: PodRuntimeName, { names }: PodRuntimes): void {
  if (name === "containerd" || names.includes(name)) return;
  throw new UsageError(
    `--pod-runtime: ${name} is not available on this machine: install it, or choose one of ${names.join(", ")}`,
  );
}
