import { isExpired, StatusError } from "@keelson/api-machinery";
import type { ListMeta } from "@keelson/api-machinery/transport";
import type { PinnedState, StoredObject, StorePage } from "../../storage/store.ts";
import { type Call, keyOf, prefixOf } from "../call.ts";
import { countRemaining } from "./count-remaining.ts";
import { requireListMatch } from "./list-match.ts";
import { decodeContinue, encodeContinue, type Position } from "./continue-token.ts";
import { encodeUnstored, serve, serveAll, servedBytes, servesStoredBytes, typeMetaBytes } from "../object/serve-object.ts";
import type { ServedResource } from "../../registry/served-resource.ts";
import { badRequest, notFound, tooLargeResourceVersion } from "../errors.ts";
import { matchingObjects } from "./converted-selection.ts";
import { HeldState } from "./held-state.ts";
import { retryAfterSeconds, waitForRevision } from "./wait-for-revision.ts";
import type { EncodedObject, ListOutcome, ObjectOutcome } from "../outcome.ts";
import { integerOf, parseResourceVersion, parseStartingVersion } from "./resource-version.ts";
import { type Selection, selectionOf } from "./selection.ts";
import { copiedObjects, forEachSlice, sliceBytes, sliceSize, sliceSizeOf } from "./slices.ts";

/** Serves get of an object or its status. */
export async function getObject(call: Call): Promise<ObjectOutcome> {
  const { resource, info, store, query } = call;
  if (resource.provide !== undefined) return getProvided(call, resource.provide);
  const atLeast = parseStartingVersion(query["resourceVersion"]);
  if (atLeast !== undefined) await waitForRevision(call, atLeast);
  const stored = store.get(keyOf(call));
  if (stored === undefined) throw notFound(resource, info.name);
  return { kind: "object", status: 200, object: await serve(call, stored), resource, subresource: info.subresource };
}

/** Serves list. */
export async function listObjects(call: Call): Promise<ListOutcome> {
  const { resource, query } = call;
  const selection = selectionOf(resource, query);
  if (resource.provide !== undefined) return listProvided(call, resource.provide, selection);
  // A failed conversion must be an error, so all items are converted before the response begins.
  const isConverted = resource.convertByWebhook !== undefined;
  if (call.request.acceptsSlices === true && !isPaged(query) && !isConverted) return listInSlices(call, selection);
  const stored = await listStored(call, selection);
  const items: EncodedObject[] = [];
  // Custom objects are parsed to check whether they lack defaults.
  const serveSlice = async (slice: readonly StoredObject[]): Promise<void> => {
    for (const item of await serveAll(call, slice)) items.push(item);
  };
  await forEachSlice(stored.items, serveSlice, { nextTurn: () => call.turns.next() });
  const { listMeta } = stored;
  return {
    kind: "list",
    items,
    listMeta,
    resource,
    itemSkip: resource.origin === "builtin" ? typeMetaBytes(resource) : 0,
  };
}

/** Whether a list has a limit, or continues an earlier one. */
function isPaged(query: Call["query"]): boolean {
  return pageLimitOf(query) !== undefined || (query["continue"] ?? "") !== "";
}

/** Whether a list's limit has no effect: kube-apiserver serves version 0 from its watch cache, which does not page. */
export function ignoresLimit(query: Call["query"]): boolean {
  return query["resourceVersion"] === "0" && (query["continue"] ?? "") === "";
}

/** The page size of a list. Undefined without a limit. */
function pageLimitOf(query: Call["query"]): number | undefined {
  // A malformed limit is an error in either case.
  const limit = limitOf(query["limit"]);
  return ignoresLimit(query) ? undefined : limit;
}

/** Reads the first slice of a list, and the others of the same state while the response is sent. */
async function listInSlices(call: Call, selection: Selection): Promise<ListOutcome> {
  const { resource, store } = call;
  const prefix = prefixOf(call);
  integerOf(call.query["timeoutSeconds"]);
  const start = await startOf(call, prefix, undefined);
  using state = start.revision === undefined ? store.pin() : await pinPast(call, prefix, start.revision, start);
  const { revision } = state;
  const { items, next } = state.list(prefix, { limit: sliceSizeOf(selection), maxBytes: sliceBytes });
  return {
    kind: "list",
    items: await selected(call, selection, items),
    ...(next === undefined
      ? {}
      : {
          remaining: {
            count: await countRemaining(call, state, prefix, next),
            slices: () => slicesAfter(call, selection, { prefix, revision, startAfter: next }),
            ...(selection.isSelective || !servesStoredBytes(resource)
              ? {}
              : { copy: (add) => copiesAfter(call, { prefix, revision, startAfter: next }, add) }),
          },
        }),
    listMeta: { resourceVersion: String(revision) },
    resource,
    itemSkip: resource.origin === "builtin" ? typeMetaBytes(resource) : 0,
  };
}

interface SlicesStart {
  readonly prefix: string;
  readonly revision: number;
  readonly startAfter: string;
}

async function* slicesAfter(
  call: Call,
  selection: Selection,
  { prefix, revision, startAfter }: SlicesStart,
): AsyncGenerator<readonly EncodedObject[]> {
  using held = new HeldState(call, prefix, revision);
  for (let after: string | undefined = startAfter; after !== undefined; ) {
    await call.turns.next();
    const slice = { limit: sliceSizeOf(selection), maxBytes: sliceBytes, startAfter: after };
    const page: Pick<StorePage, "items" | "next"> = (await held.get()).list(prefix, slice);
    yield await selected(call, selection, page.items);
    after = page.next;
  }
}

/** As {@link slicesAfter}, without objects: calls `add` with the served bytes of each one. */
async function* copiesAfter(
  call: Call,
  { prefix, revision, startAfter }: SlicesStart,
  add: (bytes: Uint8Array) => void,
): AsyncGenerator<void> {
  using held = new HeldState(call, prefix, revision);
  let changed = 0;
  const visit = (key: string, written: number, bytes: Uint8Array): boolean => {
    const served = servedBytes(call, key, written, bytes);
    add(served);
    // An object that is pruned or converted was parsed.
    if (served !== bytes) changed += 1;
    return changed < sliceSize;
  };
  for (let after: string | undefined = startAfter; after !== undefined; ) {
    await call.turns.next();
    const state = await held.get();
    changed = 0;
    after = state.visit(prefix, { limit: copiedObjects, maxBytes: sliceBytes, startAfter: after }, visit);
    yield;
  }
}

async function selected(call: Call, selection: Selection, items: readonly StoredObject[]): Promise<readonly EncodedObject[]> {
  return serveAll(call, await matchingObjects(call, selection, items));
}

async function getProvided(
  { resource, info, namespace }: Call,
  provide: NonNullable<ServedResource["provide"]>,
): Promise<ObjectOutcome> {
  const found = (await provide(namespace)).find(({ metadata }) => metadata.name === info.name);
  if (found === undefined) throw notFound(resource, info.name);
  return { kind: "object", status: 200, object: encodeUnstored(found), resource, subresource: "" };
}

async function listProvided(
  { resource, namespace }: Call,
  provide: NonNullable<ServedResource["provide"]>,
  selection: Selection,
): Promise<ListOutcome> {
  const objects = await provide(namespace);
  const items = objects.map(encodeUnstored).filter(({ object }) => selection.matches({ object }));
  return { kind: "list", items, listMeta: {}, resource, itemSkip: 0 };
}

interface StoredList {
  readonly items: StoredObject[];
  readonly listMeta: ListMeta;
}

/**
 * Reads the stored objects of a list or deletecollection from one snapshot. Long lists are read in slices, and other requests run in
 * between.
 */
export async function listStored(call: Call, selection: Selection): Promise<StoredList> {
  const prefix = prefixOf(call);
  const requested = pageLimitOf(call.query);
  integerOf(call.query["timeoutSeconds"]);
  const position = await startOf(call, prefix, requested);
  const limit = requested ?? Number.POSITIVE_INFINITY;
  using state = position.revision === undefined ? call.store.pin() : await pinPast(call, prefix, position.revision, position);
  const listMeta: ListMeta = { resourceVersion: String(state.revision) };
  const items: StoredObject[] = [];
  let { startAfter } = position;
  for (;;) {
    const left = limit - items.length;
    // With a selector, a slice may contain too few matches.
    const size = selection.isSelective ? sliceSizeOf(selection) : Math.min(sliceSize, left);
    const page = state.list(prefix, { limit: size, maxBytes: sliceBytes, ...(startAfter === undefined ? {} : { startAfter }) });
    const matching = await matchingObjects(call, selection, page.items);
    for (const stored of matching.slice(0, left)) items.push(stored);
    const last = matching[left - 1];
    const hasMore = page.next !== undefined || (last !== undefined && last !== page.items.at(-1));
    if (items.length === limit && last !== undefined && hasMore) {
      const token = { revision: state.revision, startAfter: last.key };
      if (selection.isSelective) return { items, listMeta: { ...listMeta, continue: encodeContinue(token, prefix) } };
      const remaining = remainingAfter(position, items.length) ?? (await countRemaining(call, state, prefix, last.key));
      const next = encodeContinue({ ...token, remaining }, prefix);
      return { items, listMeta: { ...listMeta, continue: next, remainingItemCount: remaining } };
    }
    if (page.next === undefined) return { items, listMeta };
    startAfter = page.next;
    await call.turns.next();
    call.request.signal?.throwIfAborted();
  }
}

/** The number of objects after a page, if the previous page of the same state counted those after it. */
function remainingAfter({ remaining }: Start, items: number): number | undefined {
  return remaining === undefined ? undefined : Math.max(0, remaining - items);
}

interface Start {
  /** Undefined for the newest. */
  readonly revision: number | undefined;
  readonly startAfter: string | undefined;
  /** As in the token of the previous page. */
  readonly remaining?: number | undefined;
}

/** Pins the state at an earlier revision. */
async function pinPast(call: Call, prefix: string, revision: number, { startAfter }: Start): Promise<PinnedState> {
  try {
    return await call.store.pinAt(prefix, revision);
  } catch (error) {
    if (!isExpired(error) || call.query["continue"] === undefined || startAfter === undefined) throw error;
    throw expiredContinue(encodeContinue({ revision: -1, startAfter }, prefix));
  }
}

/** The list's snapshot is compacted: the client may start over or continue with the token in this error. */
function expiredContinue(token: string): StatusError {
  const message =
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue " +
    "parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided " +
    "token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was " +
    "returned and now may show up in the list.";
  return new StatusError({
    kind: "Status",
    apiVersion: "v1",
    metadata: { continue: token },
    status: "Failure",
    message,
    reason: "Expired",
    code: 410,
  });
}

async function startOf(call: Call, prefix: string, limit: number | undefined): Promise<Start> {
  const { query, store } = call;
  const match = query["resourceVersionMatch"] ?? "";
  const token = query["continue"] ?? "";
  requireListMatch(query, token);
  if (token !== "") {
    const position: Position = decodeContinue(token, prefix);
    const revision = query["resourceVersion"] ?? "";
    if (revision !== "" && revision !== "0") {
      throw badRequest("specifying resource version is not allowed when using continue");
    }
    if (position.revision > store.revision) throw tooLargeResourceVersion(position.revision, store.revision);
    const { startAfter, remaining } = position;
    // The pages after the first one of the newest state are consistent with it.
    return position.revision < 0 ? { revision: undefined, startAfter } : { revision: position.revision, startAfter, remaining };
  }
  const revision = parseResourceVersion(query["resourceVersion"]);
  // Without resourceVersionMatch, a limit together with a resourceVersion means exactly that version (legacy rule).
  const isExact = match === "Exact" || (match === "" && limit !== undefined && revision !== undefined && revision > 0);
  if (revision !== undefined && revision > store.revision) {
    // An exact read does not wait.
    if (isExact) throw tooLargeResourceVersion(revision, store.revision, retryAfterSeconds);
    await waitForRevision(call, revision);
  }
  return { revision: isExact ? revision : undefined, startAfter: undefined };
}

function limitOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const limit = integerOf(text);
  // As in kube-apiserver, a negative limit means no limit.
  return limit > 0 ? limit : undefined;
}
