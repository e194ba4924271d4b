import { describe, expect, test } from "vitest";
import { deepFreeze, type JsonObject } from "../objects/json.ts";
import type { KubernetesObject } from "../objects/object.ts";
import type { Schema } from "../schema/schema.ts";
import { isStatusError } from "../protocol/status.ts";
import { applyConfiguration } from "./apply-configuration.ts";
import type { FieldManagementContext } from "./endpoint.ts";
import { trackUpdate } from "./track-update.ts";
import { lastAppliedAnnotation } from "./last-applied.ts";

const item: Schema = {
  type: "object",
  required: ["name"],
  properties: {
    name: { type: "string" },
    port: { type: "integer" },
    protocol: { type: "string", default: "TCP" },
    tags: { type: "array", "x-kubernetes-list-type": "set", items: { type: "string" } },
    probe: { type: "object", properties: { path: { type: "string" }, seconds: { type: "integer" } } },
  },
};

const schema: Schema = {
  type: "object",
  properties: {
    spec: {
      type: "object",
      properties: {
        replicas: { type: "integer" },
        paused: { type: "boolean" },
        note: { type: "string", nullable: true },
        size: { "x-kubernetes-int-or-string": true },
        labels: { type: "object", additionalProperties: { type: "string" } },
        selector: { type: "object", "x-kubernetes-map-type": "atomic", additionalProperties: { type: "string" } },
        args: { type: "array", items: { type: "string" } },
        set: { type: "array", "x-kubernetes-list-type": "set", items: { type: "string" } },
        numbers: { type: "array", "x-kubernetes-list-type": "set", items: { type: "integer" } },
        items: { type: "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], items: item },
        ports: {
          type: "array",
          "x-kubernetes-list-type": "map",
          "x-kubernetes-list-map-keys": ["port", "protocol"],
          items: item,
        },
        free: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
        embedded: { type: "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true },
        template: { type: "object", properties: { probe: item.properties?.["probe"] ?? {}, image: { type: "string" } } },
      },
    },
    status: {
      type: "object",
      properties: {
        phase: { type: "string" },
        conditions: {
          type: "array",
          "x-kubernetes-list-type": "map",
          "x-kubernetes-list-map-keys": ["type"],
          items: { type: "object", properties: { type: { type: "string" }, status: { type: "string" } } },
        },
      },
    },
  },
};

const apiVersion = "example.com/v1";

function context(manager: string, options: Partial<FieldManagementContext> = {}): FieldManagementContext {
  return { schema, manager, apiVersion, time: "2026-01-01T00:00:00Z", hasStatus: true, ...options };
}

function widget(content: JsonObject, metadata: JsonObject = {}): KubernetesObject {
  return { apiVersion, kind: "Widget", metadata: { name: "w", ...metadata }, ...content } as KubernetesObject;
}

type Live = KubernetesObject & { readonly spec?: JsonObject; readonly status?: JsonObject };

function apply(
  live: KubernetesObject | undefined,
  manager: string,
  config: KubernetesObject,
  options: Partial<FieldManagementContext> & { force?: boolean } = {},
): Live {
  const { force = false, ...rest } = options;
  return deepFreeze(applyConfiguration(live, config, { ...context(manager, rest), force })) as Live;
}

function track(
  live: KubernetesObject | undefined,
  manager: string,
  next: KubernetesObject,
  options: Partial<FieldManagementContext> = {},
): Live {
  return deepFreeze(trackUpdate(live, structuredClone(next), context(manager, options))) as Live;
}

function owned(object: KubernetesObject, manager: string, operation = "Apply"): unknown {
  return object.metadata.managedFields?.find((entry) => entry.manager === manager && entry.operation === operation)?.fieldsV1;
}

function refusal(action: () => unknown): { code: number; message: string; fields: (string | undefined)[] } {
  try {
    action();
  } catch (error) {
    if (!isStatusError(error)) throw error;
    return { code: error.code, message: error.message, fields: (error.status.details?.causes ?? []).map(({ field }) => field) };
  }
  throw new Error("was not rejected");
}

describe("ownership of applied fields", () => {
  const cases: [string, JsonObject, unknown][] = [
    ["scalars", { replicas: 1, paused: false }, { "f:paused": {}, "f:replicas": {} }],
    ["keys of maps", { labels: { a: "1", b: "" } }, { "f:labels": { "f:a": {}, "f:b": {} } }],
    ["atomic objects as a whole", { selector: { a: "1" } }, { "f:selector": {} }],
    ["lists without a type as a whole", { args: ["x"] }, { "f:args": {} }],
    ["items of sets", { set: ["b", "a"] }, { "f:set": { 'v:"a"': {}, 'v:"b"': {} } }],
    ["numbers in sets in numeric order", { numbers: [10, 9] }, { "f:numbers": { "v:9": {}, "v:10": {} } }],
    [
      "items of keyed lists, with their keys",
      { items: [{ name: "a", port: 1 }] },
      { "f:items": { 'k:{"name":"a"}': { ".": {}, "f:name": {}, "f:port": {} } } },
    ],
    [
      "items by a key that is left out and has a default",
      { ports: [{ name: "a", port: 1 }] },
      { "f:ports": { 'k:{"port":1,"protocol":"TCP"}': { ".": {}, "f:name": {}, "f:port": {} } } },
    ],
    [
      "sets within keyed lists",
      { items: [{ name: "a", tags: ["t"] }] },
      { "f:items": { 'k:{"name":"a"}': { ".": {}, "f:name": {}, "f:tags": { 'v:"t"': {} } } } },
    ],
    ["an empty object", { labels: {} }, { "f:labels": {} }],
    ["a null", { note: null }, { "f:note": {} }],
    ["an empty list of a type: nothing", { set: [], replicas: 1 }, { "f:replicas": {} }],
    [
      "fields that are not declared, lists in them as a whole",
      { free: { x: { y: [1] } } },
      { "f:free": { "f:x": { ".": {}, "f:y": {} } } },
    ],
    ["either form of int-or-string", { size: "10%" }, { "f:size": {} }],
    [
      "labels of an embedded resource by key",
      { embedded: { apiVersion: "v1", kind: "X", metadata: { finalizers: ["f"] } } },
      { "f:embedded": { "f:apiVersion": {}, "f:kind": {}, "f:metadata": { "f:finalizers": { 'v:"f"': {} } } } },
    ],
    [
      "a field called __proto__",
      { free: JSON.parse('{"__proto__": {"x": 1}}') },
      { "f:free": { "f:__proto__": { ".": {}, "f:x": {} } } },
    ],
  ];
  test.each(cases)("%s", (_, spec, fields) => {
    const object = apply(undefined, "alice", widget({ spec }));
    expect(owned(object, "alice")).toEqual({ "f:spec": fields });
    expect(object.spec).toEqual(spec);
  });

  test("formats the fields of one level in the API server's order", () => {
    const object = apply(undefined, "alice", widget({ spec: { numbers: [10, 9, 100], set: ["é", "z", "a"] } }));
    const fields = owned(object, "alice") as { "f:spec": { "f:numbers": JsonObject; "f:set": JsonObject } };
    expect(Object.keys(fields["f:spec"]["f:numbers"])).toEqual(["v:9", "v:10", "v:100"]);
    expect(Object.keys(fields["f:spec"]["f:set"])).toEqual(['v:"a"', 'v:"z"', 'v:"é"']);
  });

  test("excludes the object's identity and includes labels, finalizers and owner references", () => {
    const owner = { apiVersion: "v1", kind: "ConfigMap", name: "o", uid: "u-1" };
    const metadata = { namespace: "n", labels: { a: "1" }, finalizers: ["x"], ownerReferences: [owner] };
    expect(owned(apply(undefined, "alice", widget({}, metadata)), "alice")).toEqual({
      "f:metadata": {
        "f:finalizers": { 'v:"x"': {} },
        "f:labels": { "f:a": {} },
        "f:ownerReferences": { 'k:{"uid":"u-1"}': {} },
      },
    });
  });
});

describe("rejects a configuration", () => {
  const cases: [string, JsonObject, string][] = [
    ["with a field that the schema does not have", { nope: 1 }, ".spec.nope: field not declared in schema"],
    ["with a value of another type", { replicas: "1" }, '.spec.replicas: expected a number, got "1"'],
    ["with a list for an object", { labels: [] }, ".spec.labels: expected an object, got a list"],
    ["with duplicates in a set", { set: ["a", "a"] }, '.spec.set: duplicate entries for key [="a"]'],
    [
      "with duplicates in a keyed list",
      { items: [{ name: "a" }, { name: "a" }] },
      '.spec.items: duplicate entries for key [name="a"]',
    ],
    [
      "with duplicates by a default",
      { ports: [{ port: 1 }, { port: 1, protocol: "TCP" }] },
      '.spec.ports: duplicate entries for key [port=1,protocol="TCP"]',
    ],
    ["without the key of an item", { items: [{ port: 1 }] }, '.spec.items: element 0: the item leaves out its key "name"'],
    ["with a null in a set", { set: [null] }, ".spec.set: element 0: an item of a set must be a scalar, not null"],
    [
      "with a wrong type within an item",
      { items: [{ name: "a", port: "x" }] },
      '.spec.items[name="a"].port: expected a number',
    ],
    ["with a wrong type within an atomic list", { args: [1] }, ".spec.args[0]: expected a string, got 1"],
  ];
  test.each(cases)("%s", (_, spec, message) => {
    const { code, message: text } = refusal(() => apply(undefined, "alice", widget({ spec })));
    expect(code).toBe(500);
    expect(text).toContain(message);
  });

  test("with managedFields, or of another version or kind", () => {
    const live = apply(undefined, "alice", widget({ spec: { replicas: 1 } }));
    expect(refusal(() => apply(live, "alice", widget({}, { managedFields: [] })))).toMatchObject({
      code: 400,
      message: "metadata.managedFields must be nil",
    });
    expect(refusal(() => apply(live, "alice", { ...widget({}), apiVersion: "example.com/v2" })).message).toContain(
      "expected: example.com/v1",
    );
    expect(refusal(() => apply(live, "alice", { ...widget({}), kind: "Other" })).message).toContain("Kind=Other");
  });

  test("when it nests without end", () => {
    let deep: JsonObject = {};
    for (let depth = 0; depth < 2000; depth++) deep = { x: deep };
    expect(refusal(() => apply(undefined, "alice", widget({ spec: { free: deep } }))).code).toBe(500);
  });
});

describe("merging", () => {
  test("tolerates stored duplicates and replaces applied ones", () => {
    const live = track(
      undefined,
      "tool",
      widget({ spec: { items: [{ name: "a", port: 1 }, { name: "b" }, { name: "a", port: 2 }] } }),
    );
    const replicas = apply(live, "alice", widget({ spec: { replicas: 1 } }));
    expect(replicas.spec?.["items"]).toHaveLength(3);
    const replaced = apply(live, "alice", widget({ spec: { items: [{ name: "a", port: 3 }] } }), { force: true });
    expect(replaced.spec?.["items"]).toEqual([{ name: "a", port: 3 }, { name: "b" }]);
  });

  const orders: [string[], string[], string[]][] = [
    [["a", "b", "c"], ["d"], ["a", "b", "c", "d"]],
    [
      ["a", "b", "c"],
      ["c", "a"],
      ["b", "c", "a"],
    ],
    [
      ["a", "b", "c"],
      ["x", "b", "y"],
      ["a", "x", "b", "c", "y"],
    ],
    [
      ["a", "b"],
      ["b", "a"],
      ["b", "a"],
    ],
    [
      ["a", "a", "b"],
      ["a", "x"],
      ["a", "x", "b"],
    ],
    [[], ["b", "a"], ["b", "a"]],
  ];
  test.each(orders)("a set %j with %j becomes %j", (before, config, after) => {
    const live = track(undefined, "tool", widget({ spec: { set: before } }));
    const result = apply(live, "alice", widget({ spec: { set: config } }));
    expect(result.spec?.["set"]).toEqual(after);
  });

  test("keeps metadata of the server, whatever the configuration says", () => {
    const live = deepFreeze({
      ...apply(undefined, "alice", widget({ spec: { replicas: 1 } })),
      metadata: {
        ...apply(undefined, "alice", widget({ spec: { replicas: 1 } })).metadata,
        uid: "u",
        creationTimestamp: "2026-01-01T00:00:00Z",
      },
    }) as KubernetesObject;
    const next = apply(live, "alice", widget({ spec: { replicas: 2 } }, { creationTimestamp: null, uid: null }));
    expect(next.metadata).toMatchObject({ uid: "u", creationTimestamp: "2026-01-01T00:00:00Z" });
  });

  test("never touches the live object or the prototype", () => {
    const live = apply(undefined, "alice", widget({ spec: { free: { a: 1 } } }));
    const text = JSON.stringify(live);
    const next = apply(live, "bob", widget({ spec: { free: JSON.parse('{"__proto__": {"polluted": true}}') } }));
    expect(JSON.stringify(live)).toBe(text);
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
    expect(JSON.stringify(next.spec)).toBe('{"free":{"a":1,"__proto__":{"polluted":true}}}');
  });
});

describe("omitting fields", () => {
  test("removes a list item with its content unless another manager applies it", () => {
    let live = apply(
      undefined,
      "alice",
      widget({
        spec: {
          items: [
            { name: "a", port: 1 },
            { name: "b", port: 2 },
          ],
        },
      }),
    );
    live = apply(live, "bob", widget({ spec: { items: [{ name: "b", tags: ["t"] }] } }));
    live = apply(live, "alice", widget({ spec: { items: [] } }));
    expect(live.spec).toEqual({ items: [{ name: "b", tags: ["t"] }] });
    live = apply(live, "bob", widget({}));
    expect(live.spec).toBeUndefined();
    expect(live.metadata.managedFields).toBeUndefined();
  });

  test("removes a struct with its defaults if the applier owned it", () => {
    const applied = apply(undefined, "alice", widget({ spec: { replicas: 1, template: { probe: { path: "/" } } } }));
    const live = deepFreeze({
      ...applied,
      spec: { replicas: 1, template: { probe: { path: "/", seconds: 10 } } },
    }) as KubernetesObject;
    expect(apply(live, "alice", widget({ spec: { replicas: 1 } })).spec).toEqual({ replicas: 1 });
  });

  test("keeps the rest of spec when the last owned field is removed", () => {
    const applied = apply(undefined, "alice", widget({ spec: { replicas: 1 } }));
    const live = deepFreeze({ ...applied, spec: { replicas: 1, paused: false } }) as KubernetesObject;
    expect(apply(live, "alice", widget({})).spec).toEqual({ paused: false });
  });

  test("keeps fields that an update owns", () => {
    let live = apply(undefined, "alice", widget({ spec: { labels: { a: "1" } } }));
    live = track(live, "tool", { ...live, spec: { labels: { a: "1", b: "2" } } } as KubernetesObject);
    live = apply(live, "alice", widget({ spec: { replicas: 1 } }));
    expect(live.spec).toEqual({ labels: { b: "2" }, replicas: 1 });
  });

  test("follows the applier to another version", () => {
    let live = apply(undefined, "alice", widget({ spec: { replicas: 1, paused: true } }));
    const next = { ...widget({ spec: { replicas: 1 } }), apiVersion: "example.com/v2" };
    live = apply(live, "alice", next, { apiVersion: "example.com/v2" });
    expect(live.spec).toEqual({ replicas: 1 });
    expect(live.metadata.managedFields).toMatchObject([{ manager: "alice", apiVersion: "example.com/v2" }]);
  });
});

describe("conflicts", () => {
  const live = apply(
    undefined,
    "alice",
    widget({ spec: { replicas: 1, items: [{ name: "a", port: 1 }], selector: { a: "1" } } }),
  );

  test("name each field and its owner", () => {
    const error = refusal(() =>
      apply(live, "bob", widget({ spec: { replicas: 2, items: [{ name: "a", port: 2 }], selector: { b: "1" } } })),
    );
    expect(error).toEqual({
      code: 409,
      fields: [".spec.replicas", ".spec.selector", '.spec.items[name="a"].port'],
      message:
        'Apply failed with 3 conflicts: conflicts with "alice":\n- .spec.replicas\n- .spec.selector\n- .spec.items[name="a"].port',
    });
  });

  test("include updates, with their version and subresource", () => {
    const updated = track(live, "tool", { ...live, status: { phase: "A" } } as KubernetesObject, { subresource: "status" });
    const config = widget({ status: { phase: "B" } });
    expect(refusal(() => apply(updated, "bob", config, { subresource: "status" })).message).toBe(
      'Apply failed with 1 conflict: conflict with "tool" with subresource "status" using example.com/v1: .status.phase',
    );
  });

  test("do not arise for equal values, which both then own", () => {
    const shared = apply(live, "bob", widget({ spec: { replicas: 1 } }));
    expect(owned(shared, "bob")).toEqual({ "f:spec": { "f:replicas": {} } });
    expect(owned(shared, "alice")).toEqual(owned(live, "alice"));
  });

  test("are resolved by force, which transfers ownership", () => {
    const forced = apply(live, "bob", widget({ spec: { replicas: 2 } }), { force: true });
    expect(forced.spec?.["replicas"]).toBe(2);
    expect(owned(forced, "bob")).toEqual({ "f:spec": { "f:replicas": {} } });
    expect(owned(forced, "alice")).not.toHaveProperty("f:spec.f:replicas");
  });

  test("do not arise with the same manager's earlier apply", () => {
    expect(apply(live, "alice", widget({ spec: { replicas: 5 } })).spec).toEqual({ replicas: 5 });
  });
});

describe("migration of kubectl from client-side apply", () => {
  const annotation = (spec: JsonObject) => JSON.stringify({ apiVersion, kind: "Widget", metadata: { name: "w" }, spec });
  const live = track(
    undefined,
    "kubectl-client-side-apply",
    widget({ spec: { replicas: 1, paused: false } }, { annotations: { [lastAppliedAnnotation]: annotation({ replicas: 1 }) } }),
  );

  test("inherits fields of the annotation without force and updates the annotation", () => {
    const next = apply(live, "kubectl", widget({ spec: { replicas: 2 } }));
    expect(next.spec).toEqual({ replicas: 2, paused: false });
    expect(JSON.parse(next.metadata.annotations?.[lastAppliedAnnotation] ?? "")).toEqual(
      JSON.parse(annotation({ replicas: 2 })),
    );
  });

  test("conflicts over other fields, as other managers do", () => {
    expect(refusal(() => apply(live, "kubectl", widget({ spec: { replicas: 2, paused: true } }))).fields).toEqual([
      ".spec.paused",
    ]);
    expect(refusal(() => apply(live, "alice", widget({ spec: { replicas: 2 } }))).fields).toEqual([".spec.replicas"]);
  });

  test("conflicts over fields whose value differs from the annotation", () => {
    const changed = track(live, "tool", { ...live, spec: { replicas: 7, paused: false } } as KubernetesObject);
    expect(refusal(() => apply(changed, "kubectl", widget({ spec: { replicas: 2 } }))).fields).toEqual([".spec.replicas"]);
  });

  test("ignores an annotation that is not JSON", () => {
    const broken = track(live, "tool", {
      ...live,
      metadata: { ...live.metadata, annotations: { [lastAppliedAnnotation]: "{" } },
    });
    expect(refusal(() => apply(broken, "kubectl", widget({ spec: { replicas: 2 } }))).code).toBe(409);
  });
});

describe("endpoints", () => {
  test("the object's endpoint does not change status if there is a status subresource", () => {
    const live = apply(undefined, "alice", widget({ spec: { replicas: 1 }, status: { phase: "A" } }));
    expect(live.status).toBeUndefined();
    expect(owned(live, "alice")).toEqual({ "f:spec": { "f:replicas": {} } });
    const plain = apply(undefined, "alice", widget({ status: { phase: "A" } }), { hasStatus: false });
    expect(owned(plain, "alice")).toEqual({ "f:status": { "f:phase": {} } });
  });

  test("the status endpoint changes only status and has its own entries", () => {
    let live = apply(undefined, "alice", widget({ spec: { replicas: 1 } }));
    live = apply(live, "alice", widget({ spec: { replicas: 9 }, status: { phase: "A" } }, { labels: { a: "b" } }), {
      subresource: "status",
    });
    expect(live.spec).toEqual({ replicas: 1 });
    expect(live.metadata.labels).toBeUndefined();
    expect(live.metadata.managedFields?.map(({ subresource, fieldsV1 }) => [subresource, fieldsV1])).toEqual([
      [undefined, { "f:spec": { "f:replicas": {} } }],
      ["status", { "f:status": { "f:phase": {} } }],
    ]);
  });

  test("an update through status keeps the stored managedFields", () => {
    const live = apply(undefined, "alice", widget({ spec: { replicas: 1 } }));
    const next = { ...live, status: { phase: "A" }, metadata: { ...live.metadata, managedFields: [{}] } } as KubernetesObject;
    expect(track(live, "tool", next, { subresource: "status" }).metadata.managedFields).toHaveLength(2);
  });
});

describe("updates", () => {
  test("a create owns every field, including objects and lists", () => {
    const live = track(undefined, "tool", widget({ spec: { items: [{ name: "a" }], labels: { a: "1" } } }));
    expect(owned(live, "tool", "Update")).toEqual({
      "f:spec": {
        ".": {},
        "f:items": { ".": {}, 'k:{"name":"a"}': { ".": {}, "f:name": {} } },
        "f:labels": { ".": {}, "f:a": {} },
      },
    });
  });

  test("structs that always exist in built-in kinds are not owned", () => {
    const built = { apiVersion: "apps/v1", isBuiltIn: true };
    const live = track(undefined, "tool", widget({ spec: { replicas: 1, labels: { a: "1" } } }), built);
    expect(owned(live, "tool", "Update")).toEqual({ "f:spec": { "f:labels": { ".": {}, "f:a": {} }, "f:replicas": {} } });
  });

  test("changed fields change owners, and removed fields lose theirs", () => {
    const live = apply(undefined, "alice", widget({ spec: { replicas: 1, paused: true, note: "x" } }));
    const next = track(live, "tool", { ...live, spec: { replicas: 2, note: "x" } } as KubernetesObject, {
      time: "2026-01-02T00:00:00Z",
    });
    expect(next.metadata.managedFields).toEqual([
      {
        manager: "alice",
        operation: "Apply",
        apiVersion,
        time: "2026-01-01T00:00:00Z",
        fieldsType: "FieldsV1",
        fieldsV1: { "f:spec": { "f:note": {} } },
      },
      {
        manager: "tool",
        operation: "Update",
        apiVersion,
        time: "2026-01-02T00:00:00Z",
        fieldsType: "FieldsV1",
        fieldsV1: { "f:spec": { "f:replicas": {} } },
      },
    ]);
  });

  test("a no-op update keeps entries and times", () => {
    const live = track(undefined, "tool", widget({ spec: { replicas: 1 } }));
    const next = track(live, "tool", structuredClone(live), { time: "2027-01-01T00:00:00Z" });
    expect(next).toEqual(live);
  });

  test("empty managedFields reset ownership until the next apply", () => {
    let live = apply(undefined, "alice", widget({ spec: { replicas: 1 } }));
    for (const managedFields of [[], [{}]]) {
      live = track(live, "tool", { ...live, metadata: { ...live.metadata, managedFields } });
      expect(live.metadata).not.toHaveProperty("managedFields");
    }
    live = track(live, "tool", { ...live, spec: { replicas: 2 } } as KubernetesObject);
    expect(live.metadata).not.toHaveProperty("managedFields");
    live = apply(live, "bob", widget({ spec: { paused: true } }));
    expect(owned(live, "before-first-apply", "Update")).toEqual({ "f:spec": { ".": {}, "f:replicas": {} } });
    expect(owned(live, "bob")).toEqual({ "f:spec": { "f:paused": {} } });
  });

  const entry = { manager: "m", operation: "Update", apiVersion, fieldsType: "FieldsV1", fieldsV1: {} };
  test.each([
    ["of an unknown operation", { ...entry, operation: "Other" }],
    ["without a version", { ...entry, apiVersion: "" }],
    ["of another type of fields", { ...entry, fieldsType: "FieldsV2" }],
    ["with a path element that cannot be read", { ...entry, fieldsV1: { "k:{": {} } }],
    ["with a path element without a kind", { ...entry, fieldsV1: { spec: {} } }],
    ["with a time that is none", { ...entry, time: "yesterday" }],
  ])("an entry %s makes the request's managedFields void", (_, invalid) => {
    const live = apply(undefined, "alice", widget({ spec: { replicas: 1 } }));
    const next = { ...live, metadata: { ...live.metadata, managedFields: [invalid] } } as KubernetesObject;
    expect(track(live, "tool", next).metadata.managedFields).toEqual(live.metadata.managedFields);
  });

  test("valid managedFields of the request replace the stored ones", () => {
    const live = apply(undefined, "alice", widget({ spec: { replicas: 1 } }));
    const managedFields = [{ ...entry, fieldsV1: { "f:spec": { "f:replicas": {} } } }];
    const next = { ...live, metadata: { ...live.metadata, managedFields } } as KubernetesObject;
    expect(track(live, "tool", next).metadata.managedFields).toEqual(managedFields);
  });

  test("keeps ten update entries and merges older ones", () => {
    let live = track(undefined, "m00", widget({ spec: { labels: { m00: "" } } }));
    for (let index = 1; index <= 12; index++) {
      const name = `m${String(index).padStart(2, "0")}`;
      const labels = { ...(live.spec?.["labels"] as JsonObject), [name]: "" };
      live = track(live, name, { ...live, spec: { labels } } as KubernetesObject, {
        time: `2026-01-01T00:00:${name.slice(1)}Z`,
      });
    }
    const managers = live.metadata.managedFields?.map(({ manager }) => manager);
    expect(managers).toEqual(["ancient-changes", "m04", "m05", "m06", "m07", "m08", "m09", "m10", "m11", "m12"]);
    expect(owned(live, "ancient-changes", "Update")).toEqual({
      "f:spec": { ".": {}, "f:labels": { ".": {}, "f:m00": {}, "f:m01": {}, "f:m02": {}, "f:m03": {} } },
    });
  });
});

test("an apply that changes nothing returns the live object itself", () => {
  const live = apply(
    undefined,
    "alice",
    widget({ spec: { replicas: 1, items: [{ name: "a" }], set: ["a"], selector: { a: "1" } } }),
  );
  const again = widget({ spec: { selector: { a: "1" }, set: ["a"], items: [{ name: "a" }], replicas: 1 } });
  expect(apply(live, "alice", again, { time: "2027-01-01T00:00:00Z" })).toBe(live);
});

test("owns a field as a whole after it became atomic", () => {
  const granular: Schema = {
    type: "object",
    properties: { spec: { type: "object", properties: { m: { type: "object", additionalProperties: { type: "string" } } } } },
  };
  const atomic: Schema = {
    type: "object",
    properties: {
      spec: {
        type: "object",
        properties: { m: { type: "object", "x-kubernetes-map-type": "atomic", additionalProperties: { type: "string" } } },
      },
    },
  };
  const live = apply(undefined, "alice", widget({ spec: { m: { a: "1" } } }), { schema: granular });
  expect(refusal(() => apply(live, "bob", widget({ spec: { m: { b: "1" } } }), { schema: atomic })).fields).toEqual([
    ".spec.m",
  ]);
});

test("handles a recursive schema", () => {
  const node: Schema = {
    type: "object",
    get properties() {
      return { value: { type: "string" } as const, child: node };
    },
  };
  const recursive: Schema = { type: "object", properties: { spec: node } };
  const live = apply(undefined, "alice", widget({ spec: { child: { child: { value: "x" } } } }), { schema: recursive });
  expect(owned(live, "alice")).toEqual({ "f:spec": { "f:child": { "f:child": { "f:value": {} } } } });
});
