import { Secret } from "@keelson/api-machinery/kinds";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import { type Access, deniedAccess } from "../operations/authorize.ts";
import type { WatchTarget } from "./watch-set.ts";

/** The test that reads. */
export interface Reader {
  /** Namespace of the test. */
  readonly namespace: string;
  /** Namespace of the current round, if the test is isolated. */
  readonly roundNamespace?: string | undefined;
  readonly serviceAccountName?: string | undefined;
}

/** How long a decision is cached. */
const decisionMs = 10_000;
const maxDecisions = 1_000;

/**
 * Decides what tests may read. The operator reads for them, so without a check a test could copy out whatever the operator may read.
 *
 * A test reads everything in its own namespace. Elsewhere it has the permissions of its ServiceAccount; without one, it reads all kinds except
 * Secrets, as in the original.
 */
export class ReadPermissions {
  readonly #client: Client;
  readonly #clock: Clock;
  readonly #decisions = new Map<string, { readonly denied: string | undefined; readonly until: number }>();

  constructor(options: { readonly client: Client; readonly clock: Clock }) {
    this.#client = options.client;
    this.#clock = options.clock;
  }

  /** Why a test may not read a target; undefined if it may. **Errors**: rejects if the API server cannot be reached. */
  async denied(reader: Reader, target: WatchTarget, signal: AbortSignal): Promise<string | undefined> {
    const { namespace, roundNamespace, serviceAccountName } = reader;
    const { type, name } = target;
    const isOwn = target.namespace !== undefined && [namespace, roundNamespace].includes(target.namespace);
    if (isOwn) return undefined;
    if (serviceAccountName === undefined) {
      if (type.group !== Secret.group || type.plural !== Secret.plural) return undefined;
      return "the Secret is outside the test's namespace; set spec.serviceAccountName to a ServiceAccount that may read it";
    }
    const access: Access = { verb: name === undefined ? "list" : "get", type, namespace: target.namespace, name };
    return this.#decide(namespace, serviceAccountName, access, signal);
  }

  /** Why a test may not use a Secret of its namespace to connect to another cluster; undefined if its ServiceAccount may read it. */
  async deniedSecret(
    { namespace, serviceAccountName }: Reader,
    name: string,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    if (serviceAccountName === undefined)
      return "spec.serviceAccountName must be set to a ServiceAccount that may read the Secret";
    return this.#decide(namespace, serviceAccountName, { verb: "get", type: Secret, namespace, name }, signal);
  }

  async #decide(
    namespace: string,
    serviceAccountName: string,
    access: Access,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { verb, type } = access;
    const key = JSON.stringify([namespace, serviceAccountName, verb, type.group, type.plural, access.namespace, access.name]);
    const known = this.#decisions.get(key);
    const now = this.#clock.monotonic();
    if (known !== undefined && now < known.until) return known.denied;
    const denied = await deniedAccess(this.#client, { namespace, name: serviceAccountName }, access, signal);
    if (this.#decisions.size >= maxDecisions) this.#decisions.clear();
    this.#decisions.set(key, { denied, until: now + decisionMs });
    return denied;
  }
}
