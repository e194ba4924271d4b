import fc from "fast-check";
import { expect, test } from "vitest";
import { deepFreeze, type JsonObject } from "../objects/json.ts";
import type { KubernetesObject } from "../objects/object.ts";
import type { Schema } from "../schema/schema.ts";
import { applyConfiguration } from "./apply-configuration.ts";
import type { FieldManagementContext } from "./endpoint.ts";
import { trackUpdate } from "./track-update.ts";
import { pathsOf } from "../field-sets/field-set.ts";
import { parseFieldsV1 } from "../field-sets/fields-v1.ts";

const name = fc.constantFrom("a", "b", "c", "__proto__", "constructor");
const value = fc.constantFrom("1", "2");
const labels = fc.dictionary(name, value);

const item: Schema = {
  type: "object",
  properties: {
    name: { type: "string" },
    value: { type: "string" },
    labels: { type: "object", additionalProperties: { type: "string" } },
  },
};
const schema: Schema = {
  type: "object",
  properties: {
    spec: {
      type: "object",
      properties: {
        one: { type: "string" },
        two: { type: "string" },
        labels: { type: "object", additionalProperties: { type: "string" } },
        whole: { type: "array", items: { type: "string" } },
        set: { type: "array", "x-kubernetes-list-type": "set", items: { type: "string" } },
        items: { type: "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], items: item },
        free: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
      },
    },
  },
};

const spec = fc.record(
  {
    one: value,
    two: value,
    labels,
    whole: fc.array(value, { maxLength: 3 }),
    set: fc.uniqueArray(name, { maxLength: 4 }),
    items: fc.uniqueArray(fc.record({ name, value, labels }, { requiredKeys: ["name"] }), {
      selector: (each) => each.name,
      maxLength: 4,
    }),
    free: fc.dictionary(name, fc.oneof(value, labels, fc.array(value, { maxLength: 2 }))),
  },
  { requiredKeys: [] },
);

function context(manager: string, force = false): FieldManagementContext & { force: boolean } {
  return { schema, manager, apiVersion: "example.com/v1", time: "2026-01-01T00:00:00Z", hasStatus: false, force };
}

function widget(content: unknown): KubernetesObject {
  return {
    apiVersion: "example.com/v1",
    kind: "Widget",
    metadata: { name: "w" },
    spec: structuredClone(content),
  } as unknown as KubernetesObject;
}

function apply(live: KubernetesObject | undefined, manager: string, content: unknown, force = true): KubernetesObject {
  return deepFreeze(applyConfiguration(live, widget(content), context(manager, force))) as KubernetesObject;
}

function ownedBy(object: KubernetesObject, manager: string): string[] {
  const entry = object.metadata.managedFields?.find((candidate) => candidate.manager === manager);
  return pathsOf(parseFieldsV1(entry?.fieldsV1))
    .map((path) => path.join("/"))
    .sort();
}

test("changes nothing when the same is applied again", () => {
  fc.assert(
    fc.property(spec, spec, (first, second) => {
      const live = apply(apply(undefined, "alice", first), "bob", second);
      expect(apply(live, "bob", second, false)).toBe(live);
    }),
  );
});

test("stores what was applied", () => {
  fc.assert(
    fc.property(spec, spec, spec, (first, second, third) => {
      const live = apply(apply(apply(undefined, "alice", first), "bob", second), "alice", third);
      const merged = apply(live, "checker", third, false);
      expect((merged as unknown as JsonObject)["spec"]).toEqual((live as unknown as JsonObject)["spec"]);
    }),
  );
});

test("shares ownership of equal values without conflict", () => {
  fc.assert(
    fc.property(spec, (content) => {
      const alice = apply(undefined, "alice", content);
      const both = apply(alice, "bob", content, false);
      expect((both as unknown as JsonObject)["spec"]).toEqual((alice as unknown as JsonObject)["spec"]);
      expect(ownedBy(both, "bob")).toEqual(ownedBy(both, "alice"));
    }),
  );
});

test("restores the object when an applier omits fields that only it owned", () => {
  fc.assert(
    fc.property(spec, spec, (base, extra) => {
      const before = apply(undefined, "alice", base);
      // Applying to an object without managedFields assigns its fields to before-first-apply.
      fc.pre(before.metadata.managedFields !== undefined);
      let after: KubernetesObject;
      try {
        after = apply(before, "bob", extra, false);
      } catch {
        return; // They conflict: nothing to restore.
      }
      const restored = deepFreeze(
        applyConfiguration(after, { ...widget(undefined), spec: undefined } as unknown as KubernetesObject, context("bob")),
      );
      expect(sorted(withoutEmpty((restored as unknown as JsonObject)["spec"]))).toEqual(
        sorted(withoutEmpty((before as unknown as JsonObject)["spec"])),
      );
      expect(restored.metadata.managedFields).toEqual(before.metadata.managedFields);
    }),
  );
});

test("gives every field the value of its last forced applier, which owns it", () => {
  fc.assert(
    fc.property(spec, spec, (first, second) => {
      const live = apply(apply(undefined, "alice", first), "bob", second);
      const alone = apply(undefined, "bob", second);
      expect(ownedBy(live, "bob")).toEqual(ownedBy(alone, "bob"));
    }),
  );
});

test("drops ownership of fields that an update removed", () => {
  fc.assert(
    fc.property(spec, spec, (first, second) => {
      const live = apply(undefined, "alice", first);
      const next = deepFreeze(trackUpdate(live, widget(second), context("tool"))) as KubernetesObject;
      const present = new Set(
        ownedBy(deepFreeze(trackUpdate(undefined, widget(second), context("all"))) as KubernetesObject, "all"),
      );
      for (const manager of ["alice", "tool"]) for (const path of ownedBy(next, manager)) expect(present).toContain(path);
    }),
  );
});

function withoutEmpty(content: unknown): unknown {
  if (Array.isArray(content)) return content;
  if (typeof content !== "object" || content === null) return content;
  const entries = Object.entries(content).map(([key, child]) => [key, withoutEmpty(child)] as const);
  const kept = entries.filter(
    ([, child]) => child !== undefined && (typeof child !== "object" || child === null || Object.keys(child).length > 0),
  );
  return kept.length === 0 ? undefined : Object.fromEntries(kept);
}

/** The order of merged lists is not restored. */
function sorted(content: unknown): unknown {
  if (typeof content !== "object" || content === null) return content;
  const object = content as JsonObject;
  const result: JsonObject = { ...object };
  for (const key of ["set", "items"]) {
    const list = object[key];
    if (Array.isArray(list))
      result[key] = list
        .map((each) => withoutEmpty(each) as JsonObject)
        .sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
  }
  return result;
}
