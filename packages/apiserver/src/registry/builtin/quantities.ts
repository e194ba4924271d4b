import { formatQuantity, isJsonObject, type Schema, setOwn } from "@keelson/api-machinery";

/**
 * Writes every resource.Quantity of a built-in object in its canonical form, in place, as a decoder and encoder would: the number
 * 1 becomes `"1"`, `1000m` becomes `1`, `0.5` becomes `500m`.
 *
 * **Errors**: throws a `RangeError` where a text or number is no quantity. Values of other types are left to validation.
 */
export function canonicalQuantities(schema: Schema, value: unknown): void {
  if (Array.isArray(value)) {
    const { items } = schema;
    if (items === undefined) return;
    for (let index = 0; index < value.length; index++) {
      if (items.format === "quantity") value[index] = canonical(value[index]);
      else canonicalQuantities(items, value[index]);
    }
    return;
  }
  if (!isJsonObject(value)) return;
  const { properties, additionalProperties } = schema;
  for (const key of Object.keys(value)) {
    const own = properties && Object.hasOwn(properties, key) ? properties[key] : undefined;
    const child = own ?? (typeof additionalProperties === "object" ? additionalProperties : undefined);
    if (child === undefined) continue;
    if (child.format === "quantity") setOwn(value, key, canonical(value[key]));
    else canonicalQuantities(child, value[key]);
  }
}

function canonical(value: unknown): unknown {
  return typeof value === "string" || typeof value === "number" ? formatQuantity(value) : value;
}
