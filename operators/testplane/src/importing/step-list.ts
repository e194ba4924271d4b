import { isJsonObject } from "@keelson/api-machinery";
import { parseDuration } from "@keelson/api-machinery/time";
import { ConversionError } from "./problem-list.ts";

type Json = Readonly<Record<string, unknown>>;

/** A converted step, except for its name. */
export type ConvertedStep = Json;

/** Collects steps with unique names. */
export class StepList {
  readonly #names = new Set<string>();
  readonly steps: Json[] = [];

  add(name: string, step: ConvertedStep): void {
    const short = name.slice(0, 200);
    let unique = short;
    for (let count = 2; this.#names.has(unique); count++) unique = `${short} (${count})`;
    this.#names.add(unique);
    this.steps.push({ name: unique, ...step });
  }
}

/** The object of a value. **Errors**: a {@link ConversionError} if it has no apiVersion or kind. */
export function objectOf(value: unknown): Json & { readonly apiVersion: string; readonly kind: string } {
  if (!isJsonObject(value) || typeof value["apiVersion"] !== "string" || typeof value["kind"] !== "string")
    throw new ConversionError("must be an object with apiVersion and kind");
  return value as Json & { readonly apiVersion: string; readonly kind: string };
}

/** The metadata of an object. */
export const metadataOf = ({ metadata }: Json): Json => (isJsonObject(metadata) ? metadata : {});

/** `ConfigMap web` or `ConfigMap`. */
export function describeObject(value: Json): string {
  const name = value["name"] ?? metadataOf(value)["name"];
  return `${String(value["kind"])}${typeof name === "string" ? ` ${name}` : ""}`;
}

/** A reference to the object of a manifest. **Errors**: a {@link ConversionError} if it has no name. */
export function referenceOf(value: Json): Json {
  const { apiVersion, kind } = objectOf(value);
  const { name = metadataOf(value)["name"], namespace = metadataOf(value)["namespace"] } = value;
  if (typeof name !== "string") throw new ConversionError("objects without a name can be observed, but not changed");
  return { apiVersion, kind, name, ...(typeof namespace === "string" ? { namespace } : {}) };
}

/** Whether labels can be part of a selector: they have no expressions that are evaluated for each object. */
const isSelectable = (labels: unknown): labels is Json =>
  isJsonObject(labels) && Object.values(labels).every((value) => typeof value === "string");

/** The selector of the objects that an assertion is about: by name, or by labels. */
export function selectorOf(value: Json): Json {
  const { apiVersion, kind } = objectOf(value);
  const metadata = metadataOf(value);
  const { name = metadata["name"], namespace = metadata["namespace"], labels = metadata["labels"] } = value;
  return {
    ...{ apiVersion, kind },
    ...(typeof namespace === "string" ? { namespace } : {}),
    ...(typeof name === "string" ? { name } : { labelSelector: isSelectable(labels) ? labels : {} }),
  };
}

/** The fields of a manifest that its selector does not cover. */
export function contentOf(value: Json): Json {
  const { apiVersion: _, kind: __, metadata, ...rest } = value;
  if (!isJsonObject(metadata)) return rest;
  const { name, namespace: ___, labels, ...others } = metadata;
  // Labels are part of the selector, unless there is a name.
  const isSelected = name === undefined && isSelectable(labels);
  const left = { ...(isSelected || labels === undefined ? {} : { labels }), ...others };
  return Object.keys(left).length === 0 ? rest : { metadata: left, ...rest };
}

/** `timeoutSeconds` of a duration such as `1m`, if it is one. */
export function timeoutOf(...values: readonly unknown[]): { readonly timeoutSeconds?: number } {
  const value = values.find((each) => each !== undefined);
  if (typeof value === "number") return { timeoutSeconds: value };
  if (typeof value !== "string") return {};
  try {
    return { timeoutSeconds: Math.max(Math.ceil(parseDuration(value) / 1_000), 1) };
  } catch {
    throw new ConversionError(`${value} is not a duration such as 30s`);
  }
}

/** A name of a Kubernetes object. */
export const objectName = (text: string): string =>
  text
    .toLowerCase()
    .replaceAll(/[^a-z0-9.-]+/g, "-")
    .replaceAll(/^[^a-z0-9]+|[^a-z0-9]+$/g, "")
    .slice(0, 200) || "test";

/** A text. **Errors**: a {@link ConversionError} if it is missing. */
export function textOf(value: unknown, field: string): string {
  if (typeof value !== "string" || value === "") throw new ConversionError(`${field}: required`);
  return value;
}
