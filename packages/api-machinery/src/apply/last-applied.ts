import { type DeepReadonly, isJsonObject } from "../objects/json.ts";
import type { KubernetesObject } from "../objects/object.ts";
import { compareValues } from "./compare-values.ts";
import { difference, type FieldSet } from "../field-sets/field-set.ts";
import { fieldsOfConfig } from "../field-sets/fields-of-value.ts";
import type { Shape } from "../field-sets/shape.ts";

/** The annotation in which client-side `kubectl apply` keeps the last applied configuration. */
export const lastAppliedAnnotation = "kubectl.kubernetes.io/last-applied-configuration";

/** The field manager of `kubectl apply --server-side`, the only one that inherits from client-side apply. */
export const kubectlManager = "kubectl";

/** The maximum total size of annotations (apimachinery). */
const maxAnnotationsBytes = 256 * 1024;

/**
 * Returns the fields that client-side apply set and that still have those values. `kubectl` may change them without force
 * although `kubectl-client-side-apply` owns them. `undefined` if the annotation is missing or unreadable.
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

/** Updates the annotation, if the object has it, so that client-side apply can continue from there. */
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
