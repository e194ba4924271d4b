import { type DeepReadonly, isJsonObject } from "../objects/json.ts";
import type { KubernetesObject } from "../objects/object.ts";
import { compareValues } from "./compare-values.ts";
import { difference, type FieldSet } from "./field-set.ts";
import { fieldsOfConfig } from "./fields-of-value.ts";
import type { Shape } from "./shape.ts";

/** Where `kubectl apply` without `--server-side` keeps what it applied last. */
export const lastAppliedAnnotation = "kubectl.kubernetes.io/last-applied-configuration";

/** The manager as which `kubectl apply --server-side` applies; only it takes over from its client-side self. */
export const kubectlManager = "kubectl";

/** Annotations may not be larger than this together (apimachinery). */
const maxAnnotationsBytes = 256 * 1024;

/**
 * The fields that client-side apply set and that still have the values it gave them: `kubectl` may change these without
 * force although `kubectl-client-side-apply` owns them. Undefined where the annotation is missing or cannot be read.
 */
export function fieldsLastApplied(
  live: DeepReadonly<KubernetesObject>,
  apiVersion: string,
  shape: Shape,
): FieldSet | undefined {
  const text = live.metadata.annotations?.[lastAppliedAnnotation];
  if (text === undefined || text === "") return undefined;
  try {
    const applied: unknown = JSON.parse(text);
    if (!isJsonObject(applied) || applied["apiVersion"] !== apiVersion) return undefined;
    const fields = fieldsOfConfig(applied, shape);
    const { changed, removed } = compareValues(applied, live, shape, { isBuiltIn: false });
    return difference(difference(fields, changed), removed);
  } catch {
    return undefined;
  }
}

/** The object with what was applied in its annotation, where it has one, so that client-side apply can go on from there. */
export function withLastApplied(object: KubernetesObject, config: DeepReadonly<KubernetesObject>): KubernetesObject {
  const annotations = object.metadata.annotations;
  const previous = annotations?.[lastAppliedAnnotation];
  if (annotations === undefined || previous === undefined || previous === "") return object;
  const { [lastAppliedAnnotation]: _, ...configured } = config.metadata.annotations ?? {};
  const metadata =
    config.metadata.annotations === undefined ? config.metadata : { ...config.metadata, annotations: configured };
  const text = `${JSON.stringify({ ...config, metadata })}\n`;
  if (text === previous) return object;
  const updated: Record<string, string> = { ...annotations, [lastAppliedAnnotation]: text };
  let bytes = 0;
  for (const [name, value] of Object.entries(updated)) bytes += Buffer.byteLength(name) + Buffer.byteLength(value);
  if (bytes > maxAnnotationsBytes) delete updated[lastAppliedAnnotation];
  return { ...object, metadata: { ...object.metadata, annotations: updated } };
}
