import { isJsonObject, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import type { WatchEvent } from "@keelson/api-machinery/transport";
import { hash } from "node:crypto";
import { type CachedObject, cachedObject, shareUnchanged } from "../cache/cached-object.ts";
import { isMetadataOnly } from "../cache/metadata-only.ts";

/*
 * Most watch events are changes of status: the same object with another `status`, `resourceVersion` and `managedFields`. The
 * decoder cuts these three fields out of the event's text and looks up a digest of the rest, the skeleton. If the previous state of
 * the object had the same skeleton, its parts are reused and only the status is parsed.
 *
 * Cuts are made at the first match of a key. Whether the match was right shows when a skeleton is parsed for the first time: the
 * placeholders must be where the fields belong. If they are not, the whole event is parsed.
 */

const modified = '{"type":"MODIFIED","object":{';
const versionKey = 'resourceVersion":"';
const statusKey = ',"status":';
const managedKey = '"managedFields":';
/** End of the object and of the event. */
const close = "}}";
const quote = 0x22;
const openBrace = 0x7b;

type Fields = Record<string, unknown>;

/** A range of a text. */
interface Span {
  readonly from: number;
  readonly to: number;
}

/** The last state of an object with this skeleton. */
interface KnownObject {
  newest: CachedObject;
}

/** The parts of an event's text. */
interface CutEvent {
  /** The text with `""`, `0` and `0` as placeholders of the version, the managedFields and the status. */
  readonly skeleton: string;
  readonly resourceVersion: string;
  readonly status: unknown;
}

/**
 * Decodes the lines of a kind's watches. Objects have no `metadata.managedFields`, about a third of what a server sends: they are not even
 * parsed. An object whose status alone has changed since its last event is returned frozen, as the cache holds it, and shares everything else
 * with its previous state.
 *
 * Stores a digest (32 bytes) of every modified object until the object is deleted or {@link forgetAll} is called.
 */
export class EventDecoder {
  readonly #type: ResourceType;
  readonly #current: (object: CachedObject) => CachedObject | undefined;
  readonly #remembers: boolean;
  /** By the digest of their skeletons. */
  readonly #known = new Map<string, KnownObject>();
  readonly #digests = new Map<string, string>();

  /**
   * @param current returns the cached object of the same name
   * @param transforms whether a transform changes the objects, so that nothing can be shared
   */
  constructor(type: ResourceType, current: (object: CachedObject) => CachedObject | undefined, transforms: boolean) {
    this.#type = type;
    this.#current = current;
    this.#remembers = !transforms && !isMetadataOnly(type);
  }

  /** Number of stored digests. */
  get size(): number {
    return this.#known.size;
  }

  /** Call it when objects may have been deleted without an event. */
  forgetAll(): void {
    this.#known.clear();
    this.#digests.clear();
  }

  /**
   * Decodes a line. The caller checks that the result is a watch event.
   *
   * **Errors**: those of `JSON.parse`.
   */
  readonly decode = (line: Buffer): unknown => {
    const text = line.toString("utf8");
    const managed = managedFieldsIn(text);
    const object = this.#remembers && text.startsWith(modified) ? this.#modified(text, managed) : undefined;
    if (object !== undefined) return { type: "MODIFIED", object } satisfies WatchEvent<CachedObject>;
    const event = parseWithout(managed, text);
    if (this.#digests.size > 0 && isJsonObject(event) && event["type"] === "DELETED") this.#forget(metadataIn(event)?.["uid"]);
    return event;
  };

  /** `undefined` if the text cannot be cut. */
  #modified(text: string, managed: Span | undefined): CachedObject | undefined {
    const cut = cutEvent(text, managed);
    if (cut === undefined) return undefined;
    const digest = hash("sha256", cut.skeleton, "binary");
    const known = this.#known.get(digest);
    if (known !== undefined) return (known.newest = withStatus(known.newest, cut));
    const first = this.#parseSkeleton(cut, managed !== undefined);
    const uid = first?.metadata.uid;
    if (first === undefined || uid === undefined) return undefined;
    this.#forget(uid);
    this.#known.set(digest, { newest: first });
    this.#digests.set(uid, digest);
    return first;
  }

  /** Parses a new skeleton; `undefined` if a cut was not at the right field. */
  #parseSkeleton({ skeleton, resourceVersion, status }: CutEvent, isManaged: boolean): CachedObject | undefined {
    const event: unknown = parsed(skeleton);
    const metadata = metadataIn(event);
    const object = isJsonObject(event) ? (event["object"] as Fields) : undefined;
    if (object?.["status"] !== 0 || metadata?.["resourceVersion"] !== "" || (metadata["managedFields"] === 0) !== isManaged) {
      return undefined;
    }
    if (typeof metadata["uid"] !== "string" || metadata["uid"] === "") return undefined;
    object["status"] = status;
    metadata["resourceVersion"] = resourceVersion;
    const sent = object as unknown as KubernetesObject;
    return cachedObject(sent, this.#type, this.#current(sent));
  }

  #forget(uid: unknown): void {
    const digest = typeof uid === "string" ? this.#digests.get(uid) : undefined;
    if (digest === undefined) return;
    this.#digests.delete(uid as string);
    this.#known.delete(digest);
  }
}

/** The state after `last`, which differs in status and version only. */
function withStatus(last: CachedObject, { resourceVersion, status }: CutEvent): CachedObject {
  const before = last as CachedObject & { readonly status?: unknown };
  const metadata = Object.freeze({ ...last.metadata, resourceVersion });
  return Object.freeze({ ...before, metadata, status: shareUnchanged(status as object, before.status) });
}

function cutEvent(text: string, managed: Span | undefined): CutEvent | undefined {
  const versionAt = endOf(text, versionKey);
  const versionEnd = endOfDigits(text, versionAt);
  if (versionAt < 0 || versionEnd === versionAt || text.charCodeAt(versionEnd) !== quote) return undefined;
  const statusAt = endOf(text, statusKey, Math.max(versionEnd, managed?.to ?? 0));
  if (statusAt < 0 || text.charCodeAt(statusAt) !== openBrace || !text.endsWith(close)) return undefined;
  const status = parsed(text.slice(statusAt, -close.length));
  if (status === undefined) return undefined;
  // Parsed rather than sliced: a slice would keep the whole text in memory.
  const resourceVersion = JSON.parse(text.slice(versionAt - 1, versionEnd + 1)) as string;
  const parts =
    managed === undefined
      ? text.slice(0, versionAt) + text.slice(versionEnd, statusAt)
      : managed.from > versionEnd
        ? `${text.slice(0, versionAt)}${text.slice(versionEnd, managed.from)}0${text.slice(managed.to, statusAt)}`
        : managed.to < versionAt
          ? `${text.slice(0, managed.from)}0${text.slice(managed.to, versionAt)}${text.slice(versionEnd, statusAt)}`
          : undefined;
  return parts === undefined ? undefined : { skeleton: `${parts}0${close}`, resourceVersion, status };
}

/** Position after the first `key` at or after `from`; -1 if there is none. */
function endOf(text: string, key: string, from?: number): number {
  const at = text.indexOf(key, from);
  return at < 0 ? -1 : at + key.length;
}

/** `undefined` if it is not JSON. No JSON text has that value. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/**
 * The first list of objects under this key, most likely the one in the metadata. It ends with the first `}]`, because it contains no
 * list. If a string or list in it contains `}]`, the rest is not valid JSON after the cut.
 */
function managedFieldsIn(text: string): Span | undefined {
  const from = endOf(text, managedKey);
  if (from < 0 || !text.startsWith("[{", from)) return undefined;
  const to = endOf(text, "}]", from);
  return to < 0 ? undefined : { from, to };
}

/** Parses an event without the range `managed`, if that is the object's managedFields. */
function parseWithout(managed: Span | undefined, text: string): unknown {
  if (managed !== undefined) {
    // The placeholder is a value that no server sends for this field.
    const event = parsed(`${text.slice(0, managed.from)}0${text.slice(managed.to)}`);
    const metadata = metadataIn(event);
    if (metadata?.["managedFields"] === 0) {
      delete metadata["managedFields"];
      return event;
    }
  }
  return JSON.parse(text) as unknown;
}

function metadataIn(event: unknown): Fields | undefined {
  const object = isJsonObject(event) ? event["object"] : undefined;
  const metadata = isJsonObject(object) ? object["metadata"] : undefined;
  return isJsonObject(metadata) ? metadata : undefined;
}

function endOfDigits(text: string, from: number): number {
  let at = from;
  for (let code = text.charCodeAt(at); code >= 0x30 && code <= 0x39; code = text.charCodeAt(++at));
  return at;
}
