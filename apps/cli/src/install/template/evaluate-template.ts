import { isJsonObject, type JsonObject, type JsonValue } from "@keelson/api-machinery";
import {
  Choice,
  type Condition,
  Conditional,
  Expression,
  Merge,
  type Rendering,
  Splice,
  type Template,
  type TemplateItem,
  type ValuePath,
} from "./template.ts";

/** The values lack one that a template refers to. */
export class MissingValueError extends Error {
  override readonly name = "MissingValueError";
  readonly code = "MissingValue";

  constructor(path: ValuePath) {
    super(`value ${path} not found`);
  }
}

/**
 * Evaluates a template to a JSON value.
 *
 * **Errors**: {@link MissingValueError}.
 */
export function evaluateTemplate(template: Template, rendering: Rendering): JsonValue {
  if (template instanceof Expression) return evaluateExpression(template, rendering);
  if (template instanceof Choice) {
    const { condition, whenTrue, whenFalse } = template;
    return evaluateTemplate(holds(condition, rendering) ? whenTrue : whenFalse, rendering);
  }
  if (template instanceof Splice) return valueAt(template.path, rendering);
  if (template instanceof Merge) {
    const [own, added] = [evaluateTemplate(template.map, rendering), valueAt(template.path, rendering)];
    return { ...(isJsonObject(own) ? own : {}), ...(isJsonObject(added) ? added : {}) };
  }
  if (isList(template)) return template.flatMap((item) => evaluateItem(item, rendering));
  if (typeof template !== "object" || template === null) return template;
  const result: JsonObject = {};
  for (const [key, entry] of Object.entries(template)) {
    if (!(entry instanceof Conditional)) result[key] = evaluateTemplate(entry, rendering);
    else if (holds(entry.condition, rendering)) result[key] = evaluateTemplate(entry.content, rendering);
  }
  return result;
}

/** Whether a condition holds. */
export function holds(condition: Condition, rendering: Rendering): boolean {
  switch (condition.kind) {
    case "isSet":
      return isTruthy(valueAt(condition.path, rendering));
    case "equals":
      return valueAt(condition.path, rendering) === condition.value;
    case "not":
      return !holds(condition.condition, rendering);
    case "all":
      return condition.conditions.every((each) => holds(each, rendering));
    case "any":
      return condition.conditions.some((each) => holds(each, rendering));
  }
}

function evaluateItem(item: TemplateItem, rendering: Rendering): JsonValue[] {
  if (item instanceof Conditional) return holds(item.condition, rendering) ? evaluateItem(item.content, rendering) : [];
  const evaluated = evaluateTemplate(item, rendering);
  return item instanceof Splice && Array.isArray(evaluated) ? evaluated : [evaluated];
}

function evaluateExpression({ parts }: Expression, rendering: Rendering): JsonValue {
  const evaluated = parts.map((part): JsonValue => {
    if (part.kind === "text") return part.text;
    return part.kind === "namespace" ? rendering.namespace : valueAt(part.path, rendering);
  });
  const [only] = evaluated;
  return evaluated.length === 1 && only !== undefined ? only : evaluated.map(String).join("");
}

function valueAt(path: ValuePath, { values }: Rendering): JsonValue {
  let current: JsonValue = values;
  for (const key of path.split(".")) {
    const next: JsonValue | undefined = isJsonObject(current) && Object.hasOwn(current, key) ? current[key] : undefined;
    if (next === undefined) throw new MissingValueError(path);
    current = next;
  }
  return current;
}

/** Truth as in Go templates. */
function isTruthy(evaluated: JsonValue): boolean {
  if (Array.isArray(evaluated)) return evaluated.length > 0;
  return isJsonObject(evaluated) ? Object.keys(evaluated).length > 0 : Boolean(evaluated);
}

const isList = (template: Template): template is readonly TemplateItem[] => Array.isArray(template);
