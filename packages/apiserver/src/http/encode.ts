import { type DeepReadonly, isJsonObject, type KubernetesObject } from "@keelson/api-machinery";
import type { ListMeta } from "@keelson/api-machinery/transport";
import type { EncodedObject, ListOutcome, ObjectOutcome } from "../endpoints/outcome.ts";
import type { ServedResource } from "../registry/served-resource.ts";
import { forEachSlice } from "../endpoints/read/slices.ts";
import { scaleResource } from "../table/scale-table.ts";
import { joinItems, streamItems } from "./list/list-body.ts";
import { compactList, prettyList } from "./list/list-text.ts";
import { notAcceptable, type Representation } from "./negotiation.ts";
import { hasMessage, type ProtobufEncoder } from "./protobuf/encode.ts";
import { encodeProtobufList, protobufOf } from "./protobuf/body.ts";

/** How much of each object a Table's rows carry (meta/v1 TableOptions). */
export type IncludeObject = "None" | "Metadata" | "Object";

/** Creates the columns and rows of a Table. `now` is in milliseconds since the epoch. */
export type ToTable = (
  resource: ServedResource,
  objects: readonly DeepReadonly<KubernetesObject>[],
  options: { readonly includeObject: IncludeObject; readonly now: number },
) => { readonly columnDefinitions: readonly unknown[]; readonly rows: readonly unknown[] };

/** Inputs for representations other than the object itself. */
export interface EncodeContext {
  readonly toTable: ToTable;
  readonly includeObject: IncludeObject;
  readonly now: number;
  readonly protobuf: ProtobufEncoder;
}

/**
 * The size of a response body and its parts in order. Nothing is parsed or copied until the parts are iterated. A part is valid until the
 * second one after it is requested: its memory is used again.
 */
export interface EncodedBody {
  /** Undefined for a body that is read while it is sent. */
  readonly bytes: number | undefined;
  parts(): Iterable<Uint8Array> | AsyncIterable<Uint8Array>;
}

/** Returns the client's most preferred representation that the outcome supports. Throws `NotAcceptable`. */
export function chooseRepresentation(
  accepted: readonly Representation[],
  outcome: {
    readonly kind: "object" | "list" | "watch";
    readonly subresource?: string;
    readonly resource: Pick<ServedResource, "group" | "kind" | "origin" | "verbs" | "version">;
    readonly object?: EncodedObject;
  },
): Representation {
  const { subresource = "", resource } = outcome;
  // Kinds that can only be created, such as reviews, have no columns.
  const isReview = resource.verbs.length === 1 && resource.verbs[0] === "create";
  const hasTable = (subresource === "" || subresource === "status" || subresource === "scale") && !isReview;
  const chosen = accepted.find(
    (representation) =>
      (representation.as !== "Table" || hasTable) &&
      (representation.format !== "protobuf" || hasProtobuf(representation, outcome)),
  );
  if (chosen === undefined) throw notAcceptable();
  if (outcome.kind === "list" && chosen.as === "PartialObjectMetadata") {
    throw notAcceptable(`you requested PartialObjectMetadata, but the requested object is a list (${goListType(resource)})`);
  }
  if (outcome.kind !== "list" && chosen.as === "PartialObjectMetadataList") {
    throw notAcceptable(
      `you requested PartialObjectMetadataList, but the requested object is not a list (${goType(resource)})`,
    );
  }
  if (outcome.kind === "watch" && chosen.format === "yaml") throw notAcceptable("a watch is not sent as application/yaml");
  return chosen;
}

/** The Go type of an object in kube-apiserver. */
function goType({ group, kind, origin }: Pick<ServedResource, "group" | "kind" | "origin">): string {
  if (origin === "custom") return "*unstructured.Unstructured";
  return `*${group === "" ? "core" : group.split(".", 1)[0]}.${kind}`;
}

const goListType = (resource: Pick<ServedResource, "group" | "kind" | "origin">): string => `${goType(resource)}List`;

/** Whether an outcome can be sent as protobuf: all metadata, and objects of built-in kinds. */
function hasProtobuf({ as }: Representation, { resource, object }: Parameters<typeof chooseRepresentation>[1]): boolean {
  if (as !== undefined) return true;
  return (
    resource.origin === "builtin" && hasMessage(object?.object ?? { apiVersion: apiVersionOf(resource), kind: resource.kind })
  );
}

/** The value of one object in a representation. */
export function objectValue(
  object: EncodedObject,
  resource: ServedResource,
  representation: Representation,
  context: EncodeContext,
): unknown {
  switch (representation.as) {
    case "Table":
      return table(
        resource,
        [object],
        { resourceVersion: object.object.metadata.resourceVersion ?? "" },
        representation,
        context,
      );
    case "PartialObjectMetadata":
      return partialMetadata(object, representation);
    default:
      return object.object;
  }
}

/** Encodes a response with one object. */
export async function encodeObject(
  outcome: ObjectOutcome,
  representation: Representation,
  context: EncodeContext,
): Promise<EncodedBody> {
  if (representation.as === undefined && representation.format === "json" && !representation.pretty) {
    return bodyOf(outcome.object.bytes);
  }
  const shown = outcome.subresource === "scale" ? scaleResource(outcome.resource) : outcome.resource;
  const value = objectValue(outcome.object, shown, representation, context);
  if (representation.format === "protobuf") return bodyOf(protobufOf(value, context.protobuf));
  return encodeValue(value, representation);
}

/** Encodes a response with a list. */
export async function encodeList(
  outcome: ListOutcome,
  representation: Representation,
  context: EncodeContext,
): Promise<EncodedBody> {
  const { resource, listMeta } = outcome;
  if (outcome.remaining !== undefined && representation.as === undefined && isPlainJson(representation)) {
    return streamItems(JSON.stringify(listHead(outcome)), outcome, outcome.remaining);
  }
  if (representation.format === "protobuf") {
    const isMetadata = representation.as !== undefined;
    const type = isMetadata ? `meta.k8s.io/${representation.version}` : apiVersionOf(resource);
    return encodeProtobufList(outcome, {
      encoder: context.protobuf,
      list: { apiVersion: type, kind: isMetadata ? "PartialObjectMetadataList" : resource.listKind },
      item: { apiVersion: type, kind: isMetadata ? "PartialObjectMetadata" : resource.kind },
    });
  }
  const items = await completeItems(outcome);
  if (representation.as === "Table") {
    const { rows: _, ...head } = table(resource, [], listMeta, representation, context);
    const rowsOf = (slice: readonly EncodedObject[]): readonly unknown[] =>
      table(resource, slice, listMeta, representation, context).rows;
    return encodeSliced(head, "rows", items, rowsOf, representation);
  }
  if (representation.as === "PartialObjectMetadataList") {
    const list = {
      kind: "PartialObjectMetadataList",
      apiVersion: `meta.k8s.io/${representation.version}`,
      metadata: listMeta,
    };
    const metadataOf = (slice: readonly EncodedObject[]): readonly unknown[] =>
      slice.map((item) => partialMetadata(item, representation));
    return encodeSliced(list, "items", items, metadataOf, representation);
  }
  const head = listHead(outcome);
  if (isPlainJson(representation) || isLongYaml(representation, items)) {
    return joinItems(JSON.stringify(head), items, outcome.itemSkip);
  }
  const valuesOf = (slice: readonly EncodedObject[]): readonly unknown[] =>
    slice.map(({ object }) => (outcome.itemSkip === 0 ? object : withoutType(object)));
  return encodeSliced(head, "items", items, valuesOf, representation);
}

/** Longer YAML is written in flow style, which is JSON: block style takes 100 ms per MB and more. */
const maxBlockYamlBytes = 32 * 1024;

function isLongYaml({ format }: Pick<Representation, "format">, items: readonly EncodedObject[]): boolean {
  return format === "yaml" && items.reduce((sum, { bytes }) => sum + bytes.length, 0) > maxBlockYamlBytes;
}

const isPlainJson = ({ format, pretty }: Pick<Representation, "format" | "pretty">): boolean => format === "json" && !pretty;

function listHead({ resource, listMeta }: ListOutcome): object {
  return { kind: resource.listKind, apiVersion: apiVersionOf(resource), metadata: listMeta };
}

function apiVersionOf({ group, version }: Pick<ServedResource, "group" | "version">): string {
  return group === "" ? version : `${group}/${version}`;
}

async function completeItems({ items, remaining }: ListOutcome): Promise<readonly EncodedObject[]> {
  if (remaining === undefined) return items;
  const all = [...items];
  for await (const slice of remaining.slices()) all.push(...slice);
  return all;
}

/** Objects parsed, converted and encoded in one turn of the event loop. */
const convertedSlice = 100;

/** Encodes `head` with the additional field `name`, the list of converted items, one slice per turn of the event loop. */
async function encodeSliced(
  head: object,
  name: string,
  items: readonly EncodedObject[],
  convert: (slice: readonly EncodedObject[]) => readonly unknown[],
  style: Pick<Representation, "format" | "pretty">,
): Promise<EncodedBody> {
  if (style.format === "yaml" && !isLongYaml(style, items)) return encodeValue({ ...head, [name]: convert(items) }, style);
  if (items.length === 0 && style.pretty) return encodeValue({ ...head, [name]: [] }, style);
  const { opening, ofSlice, closing } = style.format === "json" && style.pretty ? prettyList : compactList;
  const parts: Uint8Array[] = [Buffer.from(opening(head, name))];
  await forEachSlice(
    items,
    (slice) => {
      parts.push(Buffer.from(`${parts.length === 1 ? "" : ","}${ofSlice(convert(slice))}`));
    },
    { size: convertedSlice },
  );
  parts.push(Buffer.from(closing));
  const bytes = parts.reduce((sum, part) => sum + part.length, 0);
  return { bytes, parts: () => parts };
}

/** Encodes any JSON value. Long YAML is in flow style. */
export async function encodeValue(value: unknown, style: Pick<Representation, "format" | "pretty">): Promise<EncodedBody> {
  if (style.format === "yaml") {
    const json = JSON.stringify(value);
    if (json.length > maxBlockYamlBytes) return bodyOf(Buffer.from(json));
    const { stringify } = await import("yaml");
    return bodyOf(Buffer.from(stringify(value, yamlOptions)));
  }
  return bodyOf(Buffer.from(style.pretty ? `${JSON.stringify(value, undefined, 2)}\n` : JSON.stringify(value)));
}

/** As kube-apiserver writes YAML: sorted keys, and text in quotes that YAML 1.1 reads as something else. */
const yamlOptions = {
  aliasDuplicateObjects: false,
  indentSeq: false,
  lineWidth: 0,
  sortMapEntries: true,
  version: "1.1",
} as const;

/** Wraps bytes as a body with one part. */
export function bodyOf(bytes: Uint8Array): EncodedBody {
  return { bytes: bytes.length, parts: () => [bytes] };
}

function table(
  resource: ServedResource,
  objects: readonly EncodedObject[],
  metadata: ListMeta,
  representation: Representation,
  context: EncodeContext,
): Readonly<Record<string, unknown>> & { readonly rows: readonly unknown[] } {
  const { columnDefinitions, rows } = context.toTable(
    resource,
    objects.map(({ object }) => object),
    { includeObject: context.includeObject, now: context.now },
  );
  const apiVersion = `meta.k8s.io/${representation.version}`;
  return { kind: "Table", apiVersion, metadata, columnDefinitions, rows } as const;
}

function partialMetadata({ object }: EncodedObject, representation: Representation): unknown {
  return { kind: "PartialObjectMetadata", apiVersion: `meta.k8s.io/${representation.version}`, metadata: object.metadata };
}

function withoutType(object: unknown): unknown {
  if (!isJsonObject(object)) return object;
  const { apiVersion: _apiVersion, kind: _kind, ...rest } = object;
  return rest;
}
