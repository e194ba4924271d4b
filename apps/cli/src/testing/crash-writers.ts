import { type DeepReadonly, isConflict, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import type { WatchEvent } from "@keelson/api-machinery/transport";
import type { RandomSource } from "@keelson/apiserver";
import { type Client, isTransportError } from "@keelson/client";

/**
 * The object that the writers write. `count` is stored twice alongside a text of that length, so that a partial write is detected. `from`
 * is the revision that the write replaced (`0` for a create), so that a follower detects a gap.
 */
export interface Counted extends KubernetesObject {
  data?: { readonly count: string; readonly again: string; readonly text: string; readonly from: string };
}

/** The ConfigMaps that the writers update. */
export const counted: ResourceType<Counted> = {
  group: "",
  version: "v1",
  kind: "ConfigMap",
  plural: "configmaps",
  scope: "Namespaced",
};

/** A separate namespace, because the server itself writes ConfigMaps elsewhere. */
export const namespace = "crash";

/** A key's state. */
export interface State {
  readonly revision: number;
  readonly count: number;
}

/** Reads the state from an object. Throws if the object is a partial write. */
export function stateOf(object: DeepReadonly<Counted>): State & { readonly from: number } {
  const { metadata, data } = object;
  const count = Number(data?.count);
  const isWhole = data?.count === data?.again && data?.text.length === count % 3_000;
  if (!isWhole) throw new Error(`partial write: ${JSON.stringify(object).slice(0, 300)}`);
  return { revision: Number(metadata.resourceVersion), count, from: Number(data?.from) };
}

/** The state of a key as its only writer knows it. */
interface Known {
  readonly acknowledged: State | undefined;
  /** The count of an unanswered write; `deleted` for an unanswered delete. */
  readonly unanswered?: number | "deleted";
}

/** All acknowledged writes, across restarts of the server. */
export interface Ledger {
  readonly own: Map<string, Known>;
  /** The latest acknowledged state of the key that every writer updates. */
  shared: State | undefined;
  /** The highest revision in any response. */
  revision: number;
}

/** Name of the ConfigMap that all writers share. */
export const sharedName = "shared";

/** Checks that `found` contains every acknowledged write, and at most one unanswered write per key. Adopts it as the known state. */
export function settleLedger(ledger: Ledger, found: ReadonlyMap<string, State>, revision: number): void {
  if (revision < ledger.revision) throw new Error(`the revision went back from ${ledger.revision} to ${revision}`);
  for (const [name, { acknowledged, unanswered }] of ledger.own) {
    const state = found.get(name);
    const isAcknowledged = state?.revision === acknowledged?.revision && state?.count === acknowledged?.count;
    const isUnanswered =
      unanswered === "deleted" ? state === undefined : unanswered !== undefined && state?.count === unanswered;
    if (!isAcknowledged && !isUnanswered) {
      const known = JSON.stringify({ acknowledged, unanswered });
      throw new Error(`an acknowledged write is lost: ${name} is ${JSON.stringify(state)}, known was ${known}`);
    }
    ledger.own.set(name, { acknowledged: state });
  }
  const shared = found.get(sharedName);
  if (ledger.shared !== undefined && (shared?.revision ?? 0) < ledger.shared.revision)
    throw new Error(`an acknowledged write of the shared key is lost: ${JSON.stringify(shared)}`);
  for (const { revision: of } of found.values()) if (of > revision) throw new Error(`revision ${of} in a list of ${revision}`);
}

function dataOf(count: number, from: number): NonNullable<Counted["data"]> {
  return { count: String(count), again: String(count), text: "x".repeat(count % 3_000), from: String(from) };
}

/** Writes a key that has no other writer: creates it, then updates, patches or sometimes deletes it, and records requests and responses. */
export async function writeOwn(client: Client, ledger: Ledger, name: string, random: RandomSource): Promise<void> {
  const { acknowledged } = ledger.own.get(name) ?? { acknowledged: undefined };
  const count = (acknowledged?.count ?? 0) + 1 + random.below(900);
  const note = (object: DeepReadonly<Counted>): void => {
    const state = stateOf(object);
    ledger.own.set(name, { acknowledged: state });
    if (state.revision <= (acknowledged?.revision ?? 0)) throw new Error(`${name} went back to revision ${state.revision}`);
    ledger.revision = Math.max(ledger.revision, state.revision);
  };
  if (acknowledged !== undefined && random.below(8) === 0) {
    ledger.own.set(name, { acknowledged, unanswered: "deleted" });
    await client.delete(counted, { namespace, name });
    ledger.own.set(name, { acknowledged: undefined });
    return;
  }
  ledger.own.set(name, { acknowledged, unanswered: count });
  const data = dataOf(count, acknowledged?.revision ?? 0);
  if (acknowledged === undefined) note(await client.create(counted, { metadata: { namespace, name }, data }));
  else {
    const metadata = { namespace, name, resourceVersion: String(acknowledged.revision) };
    if (random.below(2) === 0) note(await client.update(counted, { apiVersion: "v1", kind: "ConfigMap", metadata, data }));
    else note(await client.patch(counted, { namespace, name }, { type: "merge", body: { metadata, data } }));
  }
}

/** Updates the shared key on top of its current state. A conflict with another writer is expected. */
export async function writeShared(client: Client, ledger: Ledger): Promise<void> {
  const current = await client.get(counted, { namespace, name: sharedName });
  const { count, revision } = stateOf(current);
  try {
    const written = stateOf(await client.update(counted, { ...current, data: dataOf(count + 1, revision) }));
    if (written.revision > (ledger.shared?.revision ?? 0)) ledger.shared = written;
    ledger.revision = Math.max(ledger.revision, written.revision);
  } catch (error) {
    if (!isConflict(error)) throw error;
  }
}

/** Repeats `write` until the connection to the server fails. */
export async function untilGone(write: () => Promise<void>): Promise<void> {
  for (;;) {
    try {
      await write();
    } catch (error) {
      if (isTransportError(error)) return;
      throw error;
    }
  }
}

/** The state of the keys according to a watch, and the last revision seen. */
export interface Follower {
  readonly states: Map<string, State>;
  revision: number;
}

/** Applies a watch event. Throws on a gap, a repetition, or a step back. */
export function follow(follower: Follower, event: WatchEvent<DeepReadonly<Counted>>): void {
  if (event.type === "BOOKMARK") return;
  if (event.type === "ERROR") throw new Error(`the watch failed: ${JSON.stringify(event.object)}`);
  const { revision, count, from } = stateOf(event.object);
  const name = event.object.metadata.name ?? "";
  const before = follower.states.get(name);
  const text = `${event.type} ${name} at ${revision} after ${follower.revision}, it was ${JSON.stringify(before)}`;
  if (revision <= follower.revision) throw new Error(`repeated: ${text}`);
  follower.revision = revision;
  if (event.type === "DELETED") {
    if (before?.count !== count) throw new Error(`a gap before ${text}`);
    follower.states.delete(name);
    return;
  }
  if ((event.type === "ADDED") !== (before === undefined) || from !== (before?.revision ?? 0))
    throw new Error(`a gap before ${text}, made from ${from}`);
  follower.states.set(name, { revision, count });
}
