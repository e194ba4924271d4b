import type { KubernetesObject } from "@keelson/api-machinery";
import { Pod } from "@keelson/api-machinery/kinds";
import type { WatchEvent } from "@keelson/api-machinery/transport";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type CachedObject, cachedObject } from "../cache/cached-object.ts";
import { EventDecoder } from "./event-decoder.ts";
import { metadataOf } from "../cache/metadata-only.ts";

const decoder = (transforms = false): EventDecoder => new EventDecoder(Pod, () => undefined, transforms);
const decoded = (text: string, by = decoder()): unknown => by.decode(Buffer.from(text));
const event = (object: unknown, type = "ADDED"): string => JSON.stringify({ type, object });
const managedFields = [{ manager: 'a"]}', fieldsV1: { "f:x{[": { 'k:{"name":"w\\"}': {} } } }];

/** A decoder, and the store that a cache would have alongside it. */
function cache(): {
  readonly decode: (object: object, type?: string) => CachedObject;
  readonly decodeText: (text: string) => CachedObject;
  readonly size: () => number;
} {
  const store = new Map<string, CachedObject>();
  const by = new EventDecoder(Pod, ({ metadata }) => store.get(metadata.name ?? ""), false);
  const decodeText = (text: string): CachedObject => {
    const { type, object } = by.decode(Buffer.from(text)) as WatchEvent<KubernetesObject>;
    const { name = "" } = object.metadata;
    const cached = cachedObject(object, Pod, store.get(name));
    if (type === "DELETED") store.delete(name);
    else store.set(name, cached);
    return cached;
  };
  return { decodeText, decode: (object, type = "MODIFIED") => decodeText(event(object, type)), size: () => by.size };
}

interface Options {
  readonly uid?: string;
  readonly labels?: object;
  readonly spec?: object;
  readonly manager?: string;
}

/** As kube-apiserver writes a built-in kind. */
function typedPod(resourceVersion: string, status: object, options: Options = {}): object {
  const {
    uid = "u1",
    labels = { app: "web" },
    spec = { nodeName: "n", containers: [{ name: "c" }] },
    manager = "kubelet",
  } = options;
  const owned = [
    { manager, operation: "Update", fieldsType: "FieldsV1", fieldsV1: { "f:status": { 'k:{"type":"Ready"}': {} } } },
  ];
  const metadata = { name: "a", namespace: "x", uid, resourceVersion, labels, managedFields: owned };
  return { kind: "Pod", apiVersion: "v1", metadata, spec, status };
}

/** As it writes a custom resource: fields by name. */
function sortedPod(resourceVersion: string, status: object, options: Options = {}): object {
  const { kind, apiVersion, metadata, spec } = typedPod(resourceVersion, status, options) as Record<
    string,
    Record<string, unknown>
  >;
  const { labels, managedFields: owned, name, namespace, uid } = metadata ?? {};
  return { apiVersion, kind, metadata: { labels, managedFields: owned, name, namespace, resourceVersion, uid }, spec, status };
}

const without = (object: object): object => {
  const copy = JSON.parse(JSON.stringify(object)) as KubernetesObject;
  delete (copy.metadata as { managedFields?: unknown }).managedFields;
  return copy;
};

/** Its fields by name: `__proto__` is one like the others, and their order counts for nothing. */
const ordered = (value: unknown): unknown =>
  Array.isArray(value)
    ? value.map(ordered)
    : typeof value === "object" && value !== null
      ? Object.entries(value)
          .map(([name, field]) => [name, ordered(field)] as const)
          .sort(([a], [b]) => (a < b ? -1 : 1))
      : value;

describe("managedFields", () => {
  test.each([
    ["last", { name: "a", managedFields }, { name: "a" }],
    ["first", { managedFields, name: "a" }, { name: "a" }],
    ["between", { uid: "u", managedFields, name: "a" }, { uid: "u", name: "a" }],
    ["alone", { managedFields }, {}],
    ["not there", { name: "a" }, { name: "a" }],
  ])("are omitted if they are %s in the metadata", (_, metadata, left) => {
    const rest = { spec: { a: "ä\u{1f916}" }, status: {} };
    expect(decoded(event({ kind: "K", metadata, ...rest }))).toEqual({
      type: "ADDED",
      object: { kind: "K", metadata: left, ...rest },
    });
    expect(decoded(event({ ...rest, metadata }))).toEqual({ type: "ADDED", object: { ...rest, metadata: left } });
  });

  test("are kept elsewhere", () => {
    for (const object of [
      { spec: { managedFields } },
      { managedFields, metadata: { annotations: { managedFields: "x", 'a"managedFields":[': "1" } } },
      { metadata: { ownerReferences: [{ managedFields }], labels: { object: "metadata" } } },
      { spec: { template: { metadata: { managedFields } } }, data: ["metadata", { metadata: { managedFields } }] },
      { metadata: [{ managedFields }] },
    ]) {
      expect(decoded(event(object))).toEqual({ type: "ADDED", object });
    }
    const elsewhere = { type: "ADDED", other: { metadata: { managedFields } }, object: "x" };
    expect(decoded(JSON.stringify(elsewhere))).toEqual(elsewhere);
  });

  test("are omitted completely if they contain their own end marker", () => {
    for (const odd of [[{ a: "}]" }], [{ a: '}],"x":[' }], [{ a: [{}], b: 1 }], [{ a: [{ b: [{}] }] }, {}]]) {
      const { metadata } = decoded(event({ metadata: { name: "a", managedFields: odd, labels: {} } })) as KubernetesObject;
      expect(metadata).toBeUndefined();
      const { decode } = cache();
      expect(decode({ metadata: { name: "a", managedFields: odd, uid: "u" } }, "ADDED").metadata).toEqual({
        name: "a",
        uid: "u",
      });
    }
  });
});

test("parses lines that are not compact, and reports broken ones as JSON.parse does", () => {
  const spaced = { type: "ADDED", object: { metadata: { name: "a", managedFields } } };
  expect(decoded(JSON.stringify(spaced, null, 1))).toEqual(spaced);
  for (const line of [
    '{"type":"ADDED","object":{"metadata":{"managedFields":[{"a":"',
    '{"type":"ADDED","object":{"metadata":{"managedFields":[{"a":1}',
    '{"managedFields":["a"]',
    '{"type":"MODIFIED","object":{"metadata":{"uid":"u","resourceVersion":"1"},"status":{"a":}}}',
    '{"type":"MODIFIED","object":{"metadata":{"uid":"u","resourceVersion":"1"},"spec":{,"status":{"a":1}}}',
    '"\\',
    "",
  ]) {
    expect(() => decoded(line)).toThrow(SyntaxError);
  }
});

describe.each([
  ["a built-in kind's", typedPod],
  ["a custom resource's", sortedPod],
])("%s change of status", (_, pod) => {
  test("shares everything but version and status with the previous state, and is frozen", () => {
    const { decode } = cache();
    const first = decode(pod("1", { phase: "Pending", conditions: [{ type: "A" }] })) as CachedObject & {
      readonly spec?: object;
    };
    const second = pod("9007199254740993000000001", { phase: "Running", conditions: [{ type: "A" }] }, { manager: "another" });
    const next = decode(second) as CachedObject & {
      readonly spec?: object;
      readonly status?: { readonly conditions?: object };
    };
    expect(next).toEqual(without(second));
    expect(Object.keys(next)).toEqual(Object.keys(first));
    expect(next.spec).toBe(first.spec);
    expect(next.metadata.labels).toBe(first.metadata.labels);
    expect(next.status?.conditions).toBe((first as typeof next).status?.conditions);
    for (const part of [next, next.metadata, next.spec, next.status]) expect(Object.isFrozen(part)).toBe(true);
    expect(first.metadata.resourceVersion).toBe("1");
  });

  test("equals the sent object if anything else changed too", () => {
    const { decode, size } = cache();
    decode(pod("1", { phase: "Pending" }));
    for (const options of [{ labels: { app: "b" } }, { spec: { nodeName: "m" } }, { uid: "u2" }, { labels: {} }, {}]) {
      const next = pod("2", { phase: "Running", nested: { status: { a: 1 } } }, options);
      expect(decode(next)).toEqual(without(next));
    }
    // One for each uid.
    expect(size()).toBe(2);
  });

  test("is forgotten when the object is deleted", () => {
    const { decode, size } = cache();
    decode(pod("1", { phase: "Pending" }), "ADDED");
    expect(size()).toBe(0);
    decode(pod("2", { phase: "Running" }));
    expect(size()).toBe(1);
    expect(decode(pod("3", { phase: "Gone" }), "DELETED")).toEqual(without(pod("3", { phase: "Gone" })));
    expect(size()).toBe(0);
  });

  test("is parsed completely, without a digest, for kinds with transforms or metadata only", () => {
    const byMetadata = new EventDecoder(metadataOf(Pod), () => undefined, false);
    for (const by of [decoder(true), byMetadata]) {
      expect(by.decode(Buffer.from(event(pod("1", { phase: "A" }), "MODIFIED")))).toEqual({
        type: "MODIFIED",
        object: without(pod("1", { phase: "A" })),
      });
      expect(by.size).toBe(0);
    }
  });
});

test("fields with the same names in other places are not cut", () => {
  const cut = { resourceVersion: "7", managedFields: [{ a: 1 }], status: { a: 1 } };
  for (const [first, second] of [
    [typedPod("1", { phase: "A", inner: cut }), typedPod("2", { phase: "B", inner: cut })],
    [typedPod("1", { a: 1 }, { spec: cut }), typedPod("2", { a: 2 }, { spec: cut })],
    [
      { metadata: { name: "a", uid: "u", resourceVersion: "1" }, spec: { managedFields }, status: {} },
      { metadata: { name: "a", uid: "u", resourceVersion: "2" }, spec: { managedFields: [{}] }, status: {} },
    ],
    [typedPod("1", { a: 1 }, { labels: { resourceVersion: "8", status: "x" } }), typedPod("2", { a: 2 }, { labels: {} })],
    [
      sortedPod("1", { a: 1 }, { labels: { resourceVersion: "8" } }),
      sortedPod("2", { a: 1 }, { labels: { resourceVersion: "9" } }),
    ],
    [
      { ...typedPod("1", { a: 1 }), zeta: 1 },
      { ...typedPod("2", { a: 2 }), zeta: cut },
    ],
    [
      { metadata: { name: "a", uid: "u" }, spec: cut, status: cut },
      { metadata: { name: "a", uid: "u" }, spec: cut, status: {} },
    ],
    [
      { metadata: { name: "a", uid: "u", resourceVersion: "" }, status: 0 },
      { metadata: { name: "a", uid: "u", resourceVersion: "1" }, status: 0 },
    ],
  ]) {
    const { decode } = cache();
    for (const object of [first, second, first])
      expect(decode(object ?? {})).toEqual({ kind: "Pod", apiVersion: "v1", ...without(object ?? {}) });
  }
});

test("a field next to the object is not mistaken for its status", () => {
  const object = { metadata: { name: "a", uid: "u", resourceVersion: "1" }, spec: { a: 1 } };
  const events = { type: "MODIFIED", object, other: { a: 1, status: { b: 1 } } };
  expect(decoded(JSON.stringify(events))).toEqual(events);
});

test("any sequence of events decodes to what JSON.parse returns, without managedFields", () => {
  const small = fc.jsonValue({ maxDepth: 2 });
  const fields = fc.dictionary(
    fc.constantFrom("status", "spec", "resourceVersion", "managedFields", "a", "é", "__proto__"),
    small,
  );
  const object = fc.record({
    uid: fc.constantFrom("u1", "u2"),
    version: fc.nat(99).map(String),
    labels: fc.constantFrom({}, { a: "b" }, { resourceVersion: "1" }),
    managed: fc.option(fc.array(fields, { minLength: 1, maxLength: 2 }), { nil: undefined }),
    spec: fc.oneof(
      { weight: 3, arbitrary: fc.constantFrom({ a: 1 }, { status: { b: 1 } }, "x") },
      { weight: 1, arbitrary: small },
    ),
    status: fc.oneof(fields, small),
    sorted: fc.boolean(),
    type: fc.constantFrom("ADDED", "MODIFIED", "MODIFIED", "MODIFIED", "DELETED"),
  });
  fc.assert(
    fc.property(fc.array(object, { maxLength: 12 }), (events) => {
      const { decodeText } = cache();
      for (const { uid, version, labels, managed, spec, status, sorted, type } of events) {
        const typed = { name: uid, uid, resourceVersion: version, labels, ...(managed && { managedFields: managed }) };
        const byName = { labels, ...(managed && { managedFields: managed }), name: uid, resourceVersion: version, uid };
        const sent = { kind: "Pod", apiVersion: "v1", metadata: sorted ? byName : typed, spec, status };
        const text = event(sent, type);
        expect(ordered(decodeText(text))).toEqual(ordered(without(JSON.parse(text).object as object)));
      }
    }),
  );
});
