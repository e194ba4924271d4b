import { ruleCauses } from "../../cel/rule-faults.ts";
import { isJsonObject } from "../../objects/json.ts";
import { invalidCause } from "../../protocol/field-causes.ts";
import type { StatusCause } from "../../protocol/status.ts";
import { compilePattern } from "../pattern.ts";
import type { Schema } from "../schema.ts";
import { asNode, entries, list, maxSchemaDepth, type SchemaNode } from "../schema-node.ts";

/** Reports patterns that do not compile. `metadata` of the root is exempt: its schema is implied. */
export function patternCauses(schema: SchemaNode, path: string, isRoot = true, depth = 0): StatusCause[] {
  if (depth > maxSchemaDepth) return [];
  const visit = (child: unknown, at: string): StatusCause[] => patternCauses(asNode(child), `${path}.${at}`, false, depth + 1);
  return [
    ...ownPatternCauses(schema, path),
    ...(isJsonObject(schema.items) ? visit(schema.items, "items") : []),
    ...entries(schema.properties).flatMap(([name, property]) =>
      isRoot && name === "metadata" ? [] : visit(property, `properties[${name}]`),
    ),
    ...(isJsonObject(schema.additionalProperties) ? visit(schema.additionalProperties, "additionalProperties") : []),
    ...["allOf", "anyOf", "oneOf"].flatMap((key) =>
      list(schema[key]).flatMap((branch, index) => visit(branch, `${key}[${index}]`)),
    ),
    ...(isJsonObject(schema.not) ? visit(schema.not, "not") : []),
  ];
}

function ownPatternCauses({ pattern }: SchemaNode, path: string): StatusCause[] {
  if (typeof pattern !== "string") return [];
  try {
    compilePattern(pattern);
    return [];
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return [invalidCause(`${path}.pattern`, pattern, `must be a valid regular expression, but isn't: ${reason}`)];
  }
}

/** Returns the schema without patterns, so that validating a default does not load the pattern engine. */
export function withoutPatterns(source: Schema): Schema {
  const { pattern: _pattern, ...schema } = source;
  const { items, properties, additionalProperties, allOf, anyOf, oneOf, not } = schema;
  return {
    ...schema,
    ...(items ? { items: withoutPatterns(items) } : {}),
    ...(properties ? { properties: mapValues(properties, withoutPatterns) } : {}),
    ...(typeof additionalProperties === "object" ? { additionalProperties: withoutPatterns(additionalProperties) } : {}),
    ...(allOf ? { allOf: allOf.map(withoutPatterns) } : {}),
    ...(anyOf ? { anyOf: anyOf.map(withoutPatterns) } : {}),
    ...(oneOf ? { oneOf: oneOf.map(withoutPatterns) } : {}),
    ...(not ? { not: withoutPatterns(not) } : {}),
  };
}

function mapValues<T>(map: Readonly<Record<string, T>>, change: (value: T) => T): Record<string, T> {
  return Object.fromEntries(Object.entries(map).map(([key, value]) => [key, change(value)]));
}

/**
 * Reports CEL rules that do not compile. Requires a structural schema: the rules' types follow from it. `uncorrelatable` is the path of the
 * closest schema to the root whose children cannot be matched with their old values: a list that is not a map, or an atomic map.
 */
export function celCauses(schema: Schema, path: string, isRoot = true, uncorrelatable?: string): StatusCause[] {
  const { items, properties = {}, additionalProperties } = schema;
  const ofItems = uncorrelatable ?? (schema["x-kubernetes-list-type"] === "map" ? undefined : path);
  const ofFields = uncorrelatable ?? (schema["x-kubernetes-map-type"] === "atomic" ? path : undefined);
  return [
    ...ruleCauses(schema, path, { isRoot, uncorrelatable }),
    ...(items ? celCauses(items, `${path}.items`, false, ofItems) : []),
    ...Object.entries(properties).flatMap(([name, property]) =>
      isRoot && name === "metadata" ? [] : celCauses(property, `${path}.properties[${name}]`, false, ofFields),
    ),
    ...(typeof additionalProperties === "object"
      ? celCauses(additionalProperties, `${path}.additionalProperties`, false, uncorrelatable)
      : []),
  ];
}
