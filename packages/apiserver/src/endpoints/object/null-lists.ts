import { isJsonObject, type JsonObject } from "@keelson/api-machinery";
import type { Steps } from "@keelson/api-machinery/server";
import { type Definition, definitionOf, isDefinitionName } from "../../registry/builtin/definition.ts";

/**
 * Writes `null` for the absent lists and maps of a built-in object that Go always encodes, in place: `endpoints` of an EndpointSlice,
 * `rules` of a Role, `limits` of a LimitRange. With `isStored` also for empty ones: kube-apiserver stores objects in protobuf, which does
 * not distinguish an empty list from an absent one. Takes a step for a few hundred structs.
 */
export function* writeNullLists(
  definition: Definition,
  object: JsonObject,
  { isStored = false }: { readonly isStored?: boolean } = {},
): Steps<void> {
  const root = planOf(definition.name);
  if (root === undefined) return;
  const pending: { readonly plan: Plan; readonly object: JsonObject }[] = [{ plan: root, object }];
  for (let part = pending.pop(), taken = 1; part !== undefined; part = pending.pop(), taken++) {
    const { plan, object: own } = part;
    if (Object.isFrozen(own)) continue;
    for (const name of plan.lists) if (own[name] === undefined || (isStored && isEmpty(own[name]))) own[name] = null;
    for (const { name, plan: inner } of plan.parts) {
      for (const child of structsIn(own[name])) pending.push({ plan: inner, object: child });
    }
    if (taken % partsPerStep === 0) yield;
  }
}

const partsPerStep = 200;

/** Which fields of a struct are such lists, and which others contain them. */
interface Plan {
  readonly lists: readonly string[];
  readonly parts: readonly { readonly name: string; readonly plan: Plan }[];
}

/** Memoized by type: the built-in types never change. */
const plans = new Map<string, Plan | undefined>();

/** The plan of a type; undefined if it has no such list. */
function planOf(name: string): Plan | undefined {
  if (plans.has(name)) return plans.get(name);
  // A type that contains itself has no such list in any built-in kind.
  plans.set(name, undefined);
  const fields = definitionOf(name).fields.filter((field) => field.name !== "metadata");
  const lists = fields.filter(({ type, encoding }) => encoding === "always" && isCollection(type)).map((field) => field.name);
  const parts = fields.flatMap((field) => {
    const element = elementType(field.type);
    const plan = isDefinitionName(element) ? planOf(element) : undefined;
    return plan === undefined ? [] : [{ name: field.name, plan }];
  });
  const plan = lists.length === 0 && parts.length === 0 ? undefined : { lists, parts };
  plans.set(name, plan);
  return plan;
}

const isCollection = (type: string): boolean => type.startsWith("[]") || type.startsWith("{}");

function elementType(type: string): string {
  return isCollection(type) ? elementType(type.slice(2)) : type;
}

function isEmpty(value: unknown): boolean {
  return Array.isArray(value) ? value.length === 0 : isJsonObject(value) && Object.keys(value).length === 0;
}

function* structsIn(value: unknown): Iterable<JsonObject> {
  if (Array.isArray(value)) for (const item of value) yield* structsIn(item);
  else if (isJsonObject(value)) yield value;
}
