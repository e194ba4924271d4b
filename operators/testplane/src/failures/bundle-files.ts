import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import { stringify } from "yaml";
import { stringAt, valueAt } from "../functions/read.ts";

/** What was found when a round failed. */
export interface FailureEvidence {
  /** Failed steps with what was expected, one line each. */
  readonly summary: readonly string[];
  readonly objects: readonly DeepReadonly<KubernetesObject>[];
  /** Events of the namespace since the start of the round, oldest first. */
  readonly events: readonly DeepReadonly<KubernetesObject>[];
  readonly logs: readonly ContainerLog[];
}

/** End of a container's output. */
export interface ContainerLog {
  readonly pod: string;
  readonly container: string;
  readonly text: string;
}

/** Maximum size of a bundle, below the maximum size of a ConfigMap. */
const maxBundleBytes = 768 * 1024;

/**
 * The files of a bundle: `summary.txt`, `objects.yaml`, `events.txt` and one log per container. Files that do not fit are cut and say so;
 * the end of a log is kept, and the start of everything else. Values of Secrets are removed.
 */
export function bundleFiles(evidence: FailureEvidence, maxBytes = maxBundleBytes): Readonly<Record<string, string>> {
  const files: Record<string, string> = {};
  let left = maxBytes;
  const add = (name: string, text: string, keep: "start" | "end"): void => {
    if (text === "" || left <= 0) return;
    const fitted = fit(text, left, keep);
    left -= Buffer.byteLength(fitted);
    files[name] = fitted;
  };
  // In order of value. Half of the bundle remains for the logs.
  add("summary.txt", lines(evidence.summary), "start");
  add("events.txt", fit(lines(evidence.events.map(eventLine)), maxBytes / 8, "end"), "end");
  const objects = evidence.objects.map((object) => stringify(withoutSecretValues(object), { aliasDuplicateObjects: false }));
  add("objects.yaml", fit(objects.join("---\n"), maxBytes / 4, "start"), "start");
  for (const [index, { pod, container, text }] of evidence.logs.entries()) {
    // The rest is shared evenly among the remaining logs.
    add(`${pod}.${container}.log`, fit(text, left / (evidence.logs.length - index), "end"), "end");
  }
  return files;
}

const lines = (texts: readonly string[]): string => texts.map((text) => `${text}\n`).join("");

/** Cuts a text to a number of bytes, at the boundary of a line where possible. */
function fit(text: string, maxBytes: number, keep: "start" | "end"): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= maxBytes) return text;
  const note = "[cut]\n";
  const room = Math.max(0, Math.floor(maxBytes) - note.length);
  if (keep === "start") {
    const cut = bytes.subarray(0, room).toString("utf8");
    return `${cut.slice(0, cut.lastIndexOf("\n") + 1)}${note}`;
  }
  const cut = bytes.subarray(bytes.length - room).toString("utf8");
  return `${note}${cut.slice(cut.indexOf("\n") + 1)}`;
}

/** When an event was last seen. */
export const eventTimeOf = (event: DeepReadonly<KubernetesObject>): string =>
  stringAt(event, "lastTimestamp") || stringAt(event, "eventTime") || stringAt(event, "metadata", "creationTimestamp");

function eventLine(event: DeepReadonly<KubernetesObject>): string {
  const at = eventTimeOf(event);
  const about = `${stringAt(event, "involvedObject", "kind")}/${stringAt(event, "involvedObject", "name")}`;
  const count = valueAt(event, "count");
  const times = typeof count === "number" && count > 1 ? ` (x${count})` : "";
  return `${at}  ${stringAt(event, "type")}  ${stringAt(event, "reason")}  ${about}  ${stringAt(event, "message")}${times}`;
}

function withoutSecretValues(object: DeepReadonly<KubernetesObject>): object {
  if (object.kind !== "Secret") return object;
  const hidden = (values: unknown): object =>
    Object.fromEntries(Object.keys((values ?? {}) as object).map((key) => [key, "[removed]"]));
  const { data, stringData: _, ...rest } = object as DeepReadonly<KubernetesObject> & { data?: unknown; stringData?: unknown };
  const { managedFields: __, annotations, ...metadata } = rest.metadata;
  const { "kubectl.kubernetes.io/last-applied-configuration": ___, ...kept } = annotations ?? {};
  return { ...rest, metadata: { ...metadata, annotations: kept }, data: hidden(data) };
}
