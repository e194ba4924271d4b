import { describe, expect, test } from "vitest";
import { deepFreeze, type JsonObject } from "../objects/json.ts";
import type { KubernetesObject } from "../objects/object.ts";
import { apply, owned, refusal, track, widget } from "./testing/widget.ts";

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
    ["with a value of another type", { replicas: "1" }, ".spec.replicas: expected numeric (int or float), got string"],
    ["with a list for an object", { labels: [] }, ".spec.labels: expected map, got &{[]}"],
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
    [
      "without the key of an item",
      { items: [{ port: 1 }] },
      '.spec.items: element 0: associative list with keys has an element that omits all key fields ["name"]',
    ],
    [
      "with a null in a set",
      { set: [null] },
      ".spec.set: element 0: associative list without keys has an element that's an explicit null",
    ],
    [
      "with a wrong type within an item",
      { items: [{ name: "a", port: "x" }] },
      '.spec.items[name="a"].port: expected numeric (int or float)',
    ],
    [
      "with a wrong type within an atomic list",
      { args: [1] },
      ".spec.args[0]: expected string, got &value.valueUnstructured{Value:1}",
    ],
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
