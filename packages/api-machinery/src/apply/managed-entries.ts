import { type DeepReadonly, deepFreeze } from "../objects/json.ts";
import type { ManagedFieldsEntry } from "../objects/object.ts";
import { type FieldSet, union } from "../field-sets/field-set.ts";
import { formatFieldsV1InSteps, parseFieldsV1 } from "../field-sets/fields-v1.ts";
import { compareText } from "../field-sets/path-element.ts";
import type { Steps } from "../values/steps.ts";

/** One manager's fields, decoded from an entry of `metadata.managedFields`. */
export interface ManagedEntry {
  readonly manager: string;
  readonly operation: "Apply" | "Update";
  readonly apiVersion: string;
  readonly subresource: string;
  readonly time: string | undefined;
  readonly set: FieldSet;
  /** The entry it was decoded from, stored again if nothing changed. */
  readonly source?: DeepReadonly<ManagedFieldsEntry> | undefined;
}

/** Entries by identity: manager, operation, subresource, and for updates the version. */
export type ManagedEntries = ReadonlyMap<string, ManagedEntry>;

/** The maximum number of Update entries of an object; the oldest beyond it are merged (kube-apiserver). */
const maxUpdateManagers = 10;

const ancientManager = "ancient-changes";

/** Returns the identity of an entry. An applier that moves to another version of the kind keeps its identity. */
export function entryId(entry: Pick<ManagedEntry, "manager" | "operation" | "apiVersion" | "subresource">): string {
  const version = entry.operation === "Apply" ? "" : entry.apiVersion;
  return `${entry.manager}\u0000${entry.operation}\u0000${version}\u0000${entry.subresource}`;
}

const noEntries: ManagedEntries = new Map();

// Lists of stored objects are frozen, so results can be cached by their identity.
const decodedLists = new WeakMap<object, ManagedEntries>();

/** Parses `metadata.managedFields`; `undefined` if any entry is invalid, because then none can be trusted. */
export function decodeEntries(list: DeepReadonly<ManagedFieldsEntry[]> | undefined): ManagedEntries | undefined {
  if (list === undefined || list === null) return noEntries;
  const known = decodedLists.get(list);
  if (known !== undefined) return known;
  if (!Array.isArray(list)) return undefined;
  const entries = new Map<string, ManagedEntry>();
  for (const source of list as DeepReadonly<ManagedFieldsEntry[]>) {
    const entry = decodeEntry(source);
    if (entry === undefined) return undefined;
    entries.set(entryId(entry), entry);
  }
  if (Object.isFrozen(list)) decodedLists.set(list, entries);
  return entries;
}

function decodeEntry(source: DeepReadonly<ManagedFieldsEntry>): ManagedEntry | undefined {
  if (typeof source !== "object" || source === null) return undefined;
  const { operation, apiVersion, fieldsType, manager = "", subresource = "", time } = source;
  if (operation !== "Apply" && operation !== "Update") return undefined;
  if (typeof apiVersion !== "string" || apiVersion === "" || fieldsType !== "FieldsV1") return undefined;
  if (typeof manager !== "string" || typeof subresource !== "string") return undefined;
  if (time !== undefined && time !== null && (typeof time !== "string" || Number.isNaN(Date.parse(time)))) return undefined;
  try {
    return {
      manager,
      operation,
      apiVersion,
      subresource,
      time: time ?? undefined,
      set: parseFieldsV1(source.fieldsV1),
      source,
    };
  } catch {
    return undefined;
  }
}

/**
 * Formats entries as `metadata.managedFields`: appliers first, then by time, manager, version and subresource. The list is
 * deeply frozen.
 */
export function* encodeEntries(entries: ManagedEntries): Steps<ManagedFieldsEntry[] | undefined> {
  if (entries.size === 0) return undefined;
  const list: ManagedFieldsEntry[] = [];
  for (const entry of [...entries.values()].sort(compareEntries)) {
    if (list.length > 0) yield;
    list.push(yield* encodeEntry(entry));
  }
  deepFreeze(list);
  return list;
}

function* encodeEntry(entry: ManagedEntry): Steps<ManagedFieldsEntry> {
  // Entries from a stored object are frozen already and are shared.
  if (entry.source !== undefined) return entry.source as ManagedFieldsEntry;
  const result: ManagedFieldsEntry = {
    manager: entry.manager,
    operation: entry.operation,
    apiVersion: entry.apiVersion,
  };
  if (entry.time !== undefined) result.time = entry.time;
  result.fieldsType = "FieldsV1";
  result.fieldsV1 = yield* formatFieldsV1InSteps(entry.set);
  if (entry.subresource !== "") result.subresource = entry.subresource;
  return result;
}

function compareEntries(left: ManagedEntry, right: ManagedEntry): number {
  return (
    compareText(left.operation, right.operation) ||
    compareTimes(left.time, right.time) ||
    compareText(left.manager, right.manager) ||
    compareText(left.apiVersion, right.apiVersion) ||
    compareText(left.subresource, right.subresource)
  );
}

function compareTimes(left: string | undefined, right: string | undefined): number {
  if (left === right) return 0;
  if (left?.length === 20 && right?.length === 20 && left.endsWith("Z") && right.endsWith("Z")) return left < right ? -1 : 1;
  return secondsOf(left) - secondsOf(right);
}

function secondsOf(time: string | undefined): number {
  return time === undefined ? 0 : Math.floor(Date.parse(time) / 1000);
}

/** Merges the oldest Update entries of each version into one of `ancient-changes` until no more than the limit are left. */
export function capUpdateEntries(entries: Map<string, ManagedEntry>): void {
  let count = 0;
  for (const entry of entries.values()) if (entry.operation === "Update") count++;
  if (count <= maxUpdateManagers) return;
  const updates = [...entries].filter(([, entry]) => entry.operation === "Update");
  updates.sort(([leftId, left], [rightId, right]) => compareTimes(left.time, right.time) || compareText(leftId, rightId));
  const firstOfVersion = new Map<string, string>();
  for (const [id, entry] of updates) {
    if (count <= maxUpdateManagers) return;
    const first = firstOfVersion.get(entry.apiVersion);
    if (first === undefined) {
      firstOfVersion.set(entry.apiVersion, id);
      continue;
    }
    const identity = { manager: ancientManager, operation: "Update", apiVersion: entry.apiVersion, subresource: "" } as const;
    const bucketId = entryId(identity);
    let merged = entries.get(bucketId)?.set;
    if (merged === undefined) {
      merged = entries.get(first)?.set;
      entries.delete(first);
    }
    entries.delete(id);
    entries.set(bucketId, { ...identity, time: entry.time, set: merged === undefined ? entry.set : union(entry.set, merged) });
    count--;
  }
}
