import { describe, expect, test } from "vitest";
import type { JsonObject } from "../objects/json.ts";
import type { KubernetesObject } from "../objects/object.ts";
import type { Schema } from "../schema/schema.ts";
import { apiVersion, apply, owned, refusal, track, widget } from "./testing/widget.ts";

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
