import { type DeepReadonly, isJsonObject } from "../objects/json.ts";
import type { KubernetesObject } from "../objects/object.ts";
import type { Schema } from "../schema/schema.ts";
import { FieldError, fieldsOfConfig } from "../field-sets/fields-of-value.ts";
import { fieldShape, resolveShape, rootShapeOf, type Shape } from "../field-sets/shape.ts";
import { mergeValues } from "./merge-values.ts";

/** A merged object, or why the configuration cannot be merged, in kube-apiserver's words. */
export type MergedConfiguration =
  | { readonly kind: "merged"; readonly object: KubernetesObject }
  | { readonly kind: "rejected"; readonly message: string };

/**
 * Merges a configuration into an object by its schema, as server-side apply does, but without field managers. Lists, maps and structs that
 * are atomic are rejected, because the fields that the configuration omits would be removed (KEP-3962).
 *
 * @param schema the schema of the kind in the version of both.
 */
export function mergeConfiguration(
  live: DeepReadonly<KubernetesObject>,
  config: KubernetesObject,
  schema: Schema,
): MergedConfiguration {
  const shape = rootShapeOf(schema);
  try {
    fieldsOfConfig(config, shape);
  } catch (error) {
    if (!(error instanceof FieldError)) throw error;
    return { kind: "rejected", message: `failed to convert patch object to typed object: ${error.message}` };
  }
  const atomic = atomicPaths(config, shape, "");
  if (atomic.length > 0) {
    const message = `invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: ${atomic.join(", ")}`;
    return { kind: "rejected", message };
  }
  return { kind: "merged", object: mergeValues(live, config, shape) as KubernetesObject };
}

/** Paths of the atomic values in a configuration: `.spec.selector`. Values of a map without declared fields are not searched. */
function atomicPaths(value: unknown, { map, list }: Shape, path: string): readonly string[] {
  if (Array.isArray(value) && list !== undefined) {
    const element = resolveShape(list.element);
    const below = value.flatMap((item, index) => atomicPaths(item, element, `${path}[${index}]`));
    return list.isAtomic ? [path, ...below] : below;
  }
  if (!isJsonObject(value) || map === undefined) return [];
  const below = Object.keys(value)
    .filter((name) => map.fields.has(name))
    .flatMap((name) =>
      atomicPaths(
        value[name],
        fieldShape(map, name) ?? { map: undefined, list: undefined, scalar: undefined },
        `${path}.${name}`,
      ),
    );
  return map.isAtomic ? [path, ...below] : below;
}
