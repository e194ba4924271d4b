import { isJsonObject, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import type { WatchEvent } from "@keelson/api-machinery/transport";
import { hash } from "node:crypto";
import { type CachedObject, cachedObject, sharing } from "../cache/cached-object.ts";
import { isMetadataOnly } from "../cache/metadata-only.ts";

/*
 * Most of what a watch tells is a change of status: the same object again, with another `status`, another `resourceVersion` and
 * other `managedFields`. The decoder cuts these three out of an event's text. What is left, the skeleton, it knows by its digest:
 * where the last state of the object had the same skeleton, that state's parts are taken, and only the status is parsed.
 *
 * The cuts are made at the first place that looks right. Whether it was right shows when a skeleton is parsed for the
 * first time: what stands for a cut must be where the field belongs. If not, the event is parsed as it came.
 */

const modified = '{"type":"MODIFIED","object":{';
const versionKey = 'resourceVersion":"';
const statusKey = ',"status":';
const managedKey = '"managedFields":';
/** Closes the object and the event. */
const close = "}}";
const quote = 0x22;
const openBrace = 0x7b;

type Fields = Record<string, unknown>;

/** A stretch of a text. */
interface Span {
  readonly from: number;
  readonly to: number;
}

/** An object that was modified. */
interface KnownObject {
  newest: CachedObject;
}

/** An event's text, cut. */
interface CutEvent {
  /** What is left, with `""`, `0` and `0` for the version, the managedFields and the status. */
  readonly skeleton: string;
  readonly resourceVersion: string;
  readonly status: unknown;
}

/**
 * Makes events of the lines of a kind's watches. Their objects come without `metadata.managedFields`, which are about a third of
 * what a server sends: what is not parsed costs neither the parsing nor the garbage. One whose status alone has changed since its
 * last event comes frozen, as the cache holds it, and shares all else with its last state.
 *
 * It remembers a digest (32 bytes) of every object that was modified, until that is deleted or {@link forgetAll} is called.
 */
export class EventDecoder {
  readonly #type: ResourceType;
  readonly #current: (object: CachedObject) => CachedObject | undefined;
  readonly #remembers: boolean;
  /** By the digest of their skeletons. */
  readonly #known = new Map<string, KnownObject>();
  readonly #digests = new Map<string, string>();

  /**
   * @param current the object of this name as the cache has it
   * @param transforms whether a transform will make something else of the objects: then nothing of them can be shared
   */
  constructor(type: ResourceType, current: (object: CachedObject) => CachedObject | undefined, transforms: boolean) {
    this.#type = type;
    this.#current = current;
    this.#remembers = !transforms && !isMetadataOnly(type);
  }

  /** How many objects it remembers. */
  get size(): number {
    return this.#known.size;
  }

  /** For when objects may have gone without an event. */
  forgetAll(): void {
    this.#known.clear();
    this.#digests.clear();
  }

  /**
   * The event that a line tells; whether it is one is the caller's to check.
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

  /** `undefined` where the text cannot be cut. */
  #modified(text: string, managed: Span | undefined): CachedObject | undefined {
    const cut = cutEvent(text, managed);
    if (cut === undefined) return undefined;
    const digest = hash("sha256", cut.skeleton, "binary");
    const known = this.#known.get(digest);
    if (known !== undefined) return (known.newest = withStatus(known.newest, cut));
    const first = this.#firstOf(cut, managed !== undefined);
    const uid = first?.metadata.uid;
    if (first === undefined || uid === undefined) return undefined;
    this.#forget(uid);
    this.#known.set(digest, { newest: first });
    this.#digests.set(uid, digest);
    return first;
  }

  /** The object of a skeleton that is seen for the first time; `undefined` where a cut was not where its field is. */
  #firstOf({ skeleton, resourceVersion, status }: CutEvent, isManaged: boolean): CachedObject | undefined {
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

/** The state after `last` that differs from it in status and version alone. */
function withStatus(last: CachedObject, { resourceVersion, status }: CutEvent): CachedObject {
  const before = last as CachedObject & { readonly status?: unknown };
  const metadata = Object.freeze({ ...last.metadata, resourceVersion });
  return Object.freeze({ ...before, metadata, status: sharing(status as object, before.status) });
}

function cutEvent(text: string, managed: Span | undefined): CutEvent | undefined {
  const versionAt = behind(text, versionKey);
  const versionEnd = endOfDigits(text, versionAt);
  if (versionAt < 0 || versionEnd === versionAt || text.charCodeAt(versionEnd) !== quote) return undefined;
  const statusAt = behind(text, statusKey, Math.max(versionEnd, managed?.to ?? 0));
  if (statusAt < 0 || text.charCodeAt(statusAt) !== openBrace || !text.endsWith(close)) return undefined;
  const status = parsed(text.slice(statusAt, -close.length));
  if (status === undefined) return undefined;
  // Parsed and not sliced: a long slice would keep the whole text.
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

/** Where a text goes on behind the first `key` from `from` on; -1 where there is none. */
function behind(text: string, key: string, from?: number): number {
  const at = text.indexOf(key, from);
  return at < 0 ? -1 : at + key.length;
}

/** `undefined` where it is no JSON; no JSON text has that value. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/**
 * The first list of objects of that name in the text: most likely the one of the metadata. It ends with the first `}]`, since no
 * list is in it; a text that has one within a string or a list there is no JSON any more once the span is cut out.
 */
function managedFieldsIn(text: string): Span | undefined {
  const from = behind(text, managedKey);
  if (from < 0 || !text.startsWith("[{", from)) return undefined;
  const to = behind(text, "}]", from);
  return to < 0 ? undefined : { from, to };
}

/** Parses an event, without `managed` where that are the managedFields of the object. */
function parseWithout(managed: Span | undefined, text: string): unknown {
  if (managed !== undefined) {
    // A list is replaced by what no server sends in its place.
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
