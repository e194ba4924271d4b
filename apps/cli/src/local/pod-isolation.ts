import { statusError } from "@keelson/api-machinery";
import { RuntimeClass } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import {
  type IsolationApi,
  isolationSources,
  podIsolation,
  type PodIsolationOptions,
  type PodIsolationStep,
  type RequestUser,
} from "@keelson/cluster/api-server";
import type { PodRuntimeName } from "./pod-runtime-flag.ts";

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
