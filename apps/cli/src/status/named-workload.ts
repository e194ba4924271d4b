import {
  type DeepReadonly,
  ignoreNotFound,
  isMissingKind,
  type KubernetesObject,
  type ResourceType,
} from "@keelson/api-machinery";
import { Event, Pod } from "@keelson/api-machinery/kinds";
import { type Clock, parseTime } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Operator } from "@keelson/operator";
import { UsageError } from "@keelson/operator/flags";
import { listOrEmpty } from "./collect-status.ts";
import { type WorkloadStatus, workloadStatus } from "./workload.ts";

/** A workload with everything that it owns and what happened to it. */
export interface NamedWorkload {
  readonly workload: WorkloadStatus;
  /** What it owns, directly or not; each object is behind its owner. */
  readonly dependents: readonly (WorkloadStatus & { readonly depth: number })[];
  /** Of the workload and its dependents, the latest last. */
  readonly events: readonly WorkloadEvent[];
}

/** An event of a workload or of a dependent. */
export interface WorkloadEvent {
  readonly type: string;
  readonly reason: string;
  /** `Kind/name`. */
  readonly object: string;
  readonly message: string;
  /** Seconds since it happened last. */
  readonly seconds: number;
}

/** Options of {@link findWorkload}. */
export interface NamedWorkloadOptions {
  readonly client: Client;
  readonly clock: Clock;
  readonly operators: readonly Operator[];
  readonly signal: AbortSignal;
}

const maxEvents = 10;

/**
 * Finds the workload of `KIND/NAME` or `KIND/NAMESPACE/NAME` (default namespace: `default`). The kind may be a plural or a short name.
 * `undefined` if it does not exist.
 *
 * **Errors**: `UsageError` for another form, or for an unknown kind.
 */
export async function findWorkload(reference: string, options: NamedWorkloadOptions): Promise<NamedWorkload | undefined> {
  const { client, clock, signal } = options;
  const { operator, type, namespace, name } = parseReference(reference, options.operators);
  const key = type.scope === "Cluster" ? { name } : { namespace, name };
  const found = await ignoreNotFound(client.get<KubernetesObject>(type, key, { signal })).catch((error: unknown) => {
    if (isMissingKind(error)) return undefined;
    throw error;
  });
  if (found === undefined) return undefined;
  const now = clock.now();
  const candidates = await dependentCandidates(client, operator, namespace, signal);
  const owned = dependentsOf(found.metadata.uid, candidates, 1);
  const uids = new Set([found, ...owned.map(({ object }) => object)].map(({ metadata }) => metadata.uid));
  return {
    workload: workloadStatus(found, now),
    dependents: owned.map(({ object, depth }) => ({ ...workloadStatus(object, now), depth })),
    events: await eventsOf(client, namespace, uids, now, signal),
  };
}

/**
 * Says that the workload of a reference does not exist, and where it was looked up.
 *
 * **Errors**: as {@link findWorkload}.
 */
export function notFoundText(reference: string, operators: readonly Operator[]): string {
  const { type, namespace } = parseReference(reference, operators);
  if (type.scope === "Cluster" || reference.split("/").length > 2) return `${reference}: not found`;
  return `${reference}: not found in namespace ${namespace}: use KIND/NAMESPACE/NAME for another namespace`;
}

function parseReference(reference: string, operators: readonly Operator[]) {
  const [kind = "", ...rest] = reference.split("/");
  const [namespace = "default", name = ""] = rest.length === 1 ? [undefined, rest[0]] : rest;
  if (rest.length < 1 || rest.length > 2 || name === "" || namespace === "")
    throw new UsageError(`${reference}: must be KIND/NAME or KIND/NAMESPACE/NAME, such as app/cache`);
  const wanted = kind.toLowerCase();
  for (const operator of operators) {
    for (const type of operator.resources) {
      const { plural, singular, shortNames = [] } = type.crd.spec.names;
      if ([type.kind.toLowerCase(), plural, singular, ...shortNames].includes(wanted))
        return { operator, type, namespace, name };
    }
  }
  const kinds = operators.flatMap(({ resources }) => resources.map((type) => type.kind.toLowerCase()));
  throw new UsageError(`${reference}: unknown kind ${kind}: must be one of ${[...new Set(kinds)].sort().join(", ")}`);
}

/** The objects of a namespace that an object of the operator may own. */
async function dependentCandidates(
  client: Client,
  { resources }: Operator,
  namespace: string,
  signal: AbortSignal,
): Promise<readonly DeepReadonly<KubernetesObject>[]> {
  const lists = await Promise.all(
    [...resources, Pod].map(async (type: ResourceType) => {
      const objects = await listOrEmpty(client, type, signal, type.scope === "Cluster" ? {} : { namespace });
      // The items of lists of built-in kinds do not name their kind.
      return objects.map((object) => ({ ...object, kind: type.kind }));
    }),
  );
  return lists.flat();
}

interface Dependent {
  readonly object: DeepReadonly<KubernetesObject>;
  readonly depth: number;
}

/** Lists each object once, even if it has several owners or is in a cycle. */
function dependentsOf(
  owner: string | undefined,
  candidates: readonly DeepReadonly<KubernetesObject>[],
  depth: number,
  seen: Set<DeepReadonly<KubernetesObject>> = new Set(),
): readonly Dependent[] {
  const owned = candidates.filter(
    (object) => !seen.has(object) && object.metadata.ownerReferences?.some(({ uid }) => uid === owner) === true,
  );
  for (const object of owned) seen.add(object);
  return owned.flatMap((object) => [{ object, depth }, ...dependentsOf(object.metadata.uid, candidates, depth + 1, seen)]);
}

async function eventsOf(
  client: Client,
  namespace: string,
  uids: ReadonlySet<string | undefined>,
  now: number,
  signal: AbortSignal,
): Promise<readonly WorkloadEvent[]> {
  const { items } = await client.list(Event, { namespace, signal });
  return items
    .filter(({ involvedObject }) => uids.has(involvedObject.uid))
    .map((event) => ({
      event,
      at: parseTime(event.lastTimestamp ?? event.eventTime ?? event.metadata.creationTimestamp ?? "") ?? now,
    }))
    .sort((a, b) => a.at - b.at)
    .slice(-maxEvents)
    .map(({ event: { type = "", reason = "", message = "", involvedObject }, at }) => ({
      ...{ type, reason, message: message.split("\n", 1)[0] ?? "" },
      object: `${involvedObject.kind ?? ""}/${involvedObject.name ?? ""}`,
      seconds: Math.max(Math.floor((now - at) / 1_000), 0),
    }));
}
