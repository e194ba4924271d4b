import { isJsonObject } from "../../objects/json.ts";
import { childPath } from "../../protocol/field-causes.ts";
import type { StatusCause } from "../../protocol/status.ts";
import { correlateItems } from "../list-identity.ts";
import type { Schema } from "../schema.ts";

/** The input of a {@link RuleEvaluator}: a value whose schema has `x-kubernetes-validations`. */
export interface RuleSite {
  readonly schema: Schema;
  readonly value: unknown;
  /** The old value at the same path; `undefined` if there is none or it cannot be correlated. */
  readonly oldValue: unknown;
  /** `""` for the root. */
  readonly path: string;
}

/** Evaluates the CEL rules of one value. Returns causes whose paths start with `site.path`. */
export type RuleEvaluator = (site: RuleSite) => readonly StatusCause[];

/** Evaluates the CEL rules of a value and of everything below it. */
export function evaluateRules(
  schema: Schema,
  value: unknown,
  old: unknown,
  path: string,
  rules: RuleEvaluator,
  causes: StatusCause[],
): void {
  if (value === null || value === undefined) return;
  if (schema["x-kubernetes-validations"]?.length) causes.push(...rules({ schema, value, oldValue: old, path }));
  if (Array.isArray(value)) {
    const { items } = schema;
    if (!items) return;
    const oldItem = correlateItems(schema, old);
    value.forEach((item, index) => {
      evaluateRules(items, item, oldItem?.(item), `${path}[${index}]`, rules, causes);
    });
  } else if (isJsonObject(value)) {
    const { properties, additionalProperties } = schema;
    const oldObject = isJsonObject(old) ? old : undefined;
    for (const key of Object.keys(value)) {
      const own = properties && Object.hasOwn(properties, key) ? properties[key] : undefined;
      const child = own ?? (typeof additionalProperties === "object" ? additionalProperties : undefined);
      if (!child) continue;
      const before = oldObject && Object.hasOwn(oldObject, key) ? oldObject[key] : undefined;
      evaluateRules(child, value[key], before, childPath(path, key), rules, causes);
    }
  }
}
