import { type DeepReadonly, isConflict, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import type { WatchEvent } from "@keelson/api-machinery/transport";
import type { RandomSource } from "@keelson/apiserver";
import { type Client, isTransportError } from "@keelson/client";

/**
 * What the writers write: `count` twice and a text of that length, so that half of a write shows, and `from`, the revision of the
 * state that it replaced (`0`: none), so that whoever follows the changes sees a gap.
 */
export interface Counted extends KubernetesObject {
  data?: { readonly count: string; readonly again: string; readonly text: string; readonly from: string };
}

export const counted: ResourceType<Counted> = {
  group: "",
  version: "v1",
  kind: "ConfigMap",
  plural: "configmaps",
  scope: "Namespaced",
};

/** In a namespace of its own: the server writes objects of this kind elsewhere. */
export const namespace = "crash";

/** A key's state. */
export interface State {
  readonly revision: number;
  readonly count: number;
}

/** The state that an object holds. Throws when the object is not whole. */
export function stateOf(object: DeepReadonly<Counted>): State & { readonly from: number } {
  const { metadata, data } = object;
  const count = Number(data?.count);
  const isWhole = data?.count === data?.again && data?.text.length === count % 3_000;
  if (!isWhole) throw new Error(`half of a write: ${JSON.stringify(object).slice(0, 300)}`);
  return { revision: Number(metadata.resourceVersion), count, from: Number(data?.from) };
}

/** What is known of a key from the answers to its only writer. */
interface Known {
  readonly acknowledged: State | undefined;
  /** The count that a write whose answer never came was to leave; `gone` for a delete. */
  readonly asked?: number | "gone";
}

/** What was acknowledged, over all lives of the server. */
export interface Ledger {
  readonly own: Map<string, Known>;
  /** The newest acknowledged state of the key that all write. */
  shared: State | undefined;
  /** The newest revision that any answer named. */
  revision: number;
}

export const sharedName = "shared";

/** Throws unless `found` is what the acknowledged writes left, and at most one more of each key. Takes it as known from here on. */
export function settleLedger(ledger: Ledger, found: ReadonlyMap<string, State>, revision: number): void {
  if (revision < ledger.revision) throw new Error(`the revision went back from ${ledger.revision} to ${revision}`);
  for (const [name, { acknowledged, asked }] of ledger.own) {
    const state = found.get(name);
    const isAcknowledged = state?.revision === acknowledged?.revision && state?.count === acknowledged?.count;
    const isAsked = asked === "gone" ? state === undefined : asked !== undefined && state?.count === asked;
    if (!isAcknowledged && !isAsked) {
      const known = JSON.stringify({ acknowledged, asked });
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

/** Writes a key that nobody else writes: creates it, then updates, patches or now and then deletes it, noting what it asks and what is answered. */
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
    ledger.own.set(name, { acknowledged, asked: "gone" });
    await client.delete(counted, { namespace, name });
    ledger.own.set(name, { acknowledged: undefined });
    return;
  }
  ledger.own.set(name, { acknowledged, asked: count });
  const data = dataOf(count, acknowledged?.revision ?? 0);
  if (acknowledged === undefined) note(await client.create(counted, { metadata: { namespace, name }, data }));
  else {
    const metadata = { namespace, name, resourceVersion: String(acknowledged.revision) };
    if (random.below(2) === 0) note(await client.update(counted, { apiVersion: "v1", kind: "ConfigMap", metadata, data }));
    else note(await client.patch(counted, { namespace, name }, { type: "merge", body: { metadata, data } }));
  }
}

/** Updates the key that all write, on top of whatever it holds. Another's update in between is no fault. */
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

/** Repeats `write` until the server is gone. */
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

/** The state of the keys as a watch tells it, and how far it has seen. */
export interface Follower {
  readonly states: Map<string, State>;
  revision: number;
}

/** Takes an event in. Throws when it does not follow on from what was seen: a gap, a repetition, or a step back. */
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
