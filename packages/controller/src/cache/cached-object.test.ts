import { deepFreeze, type KubernetesObject } from "@keelson/api-machinery";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { cachedObject } from "./cached-object.ts";
import { robotType } from "../testing/kinds.ts";

const sent = (value: unknown): KubernetesObject => JSON.parse(JSON.stringify(value)) as KubernetesObject;
const robot = (resourceVersion: string, more: object = {}) =>
  sent({ metadata: { name: "a", namespace: "n", resourceVersion, managedFields: [{}] }, spec: { model: "x" }, ...more });

describe("cached object", () => {
  test("is deeply frozen, has its kind and no managedFields, from a list and from a server in this process", () => {
    const wanted = {
      apiVersion: "example.org/v1",
      kind: "Robot",
      metadata: { name: "a", namespace: "n", resourceVersion: "1" },
      spec: { model: "x" },
    };
    const shared = Object.freeze(robot("1"));
    Object.freeze(shared.metadata);
    for (const object of [robot("1"), shared]) {
      const cached = cachedObject(object, robotType, undefined);
      expect(cached).toEqual(wanted);
      expect(Object.isFrozen((cached as { spec?: unknown }).spec)).toBe(true);
    }
    expect(shared.metadata.managedFields).toBeDefined();
  });

  test("shares unchanged parts with the previous state", () => {
    const old = cachedObject(robot("1", { status: { phase: "A", list: [{ a: 1 }, { b: 2 }] } }), robotType, undefined);
    const next = cachedObject(robot("2", { status: { phase: "B", list: [{ a: 1 }, { b: 3 }] } }), robotType, old);
    const parts = (object: object) => object as { spec: unknown; status: { phase: string; list: readonly unknown[] } };
    expect(parts(next).spec).toBe(parts(old).spec);
    expect(parts(next).status.list[0]).toBe(parts(old).status.list[0]);
    expect(parts(next).status).toEqual({ phase: "B", list: [{ a: 1 }, { b: 3 }] });
    expect(parts(old).status.phase).toBe("A");
  });

  test("keeps frozen parts as they are and modifies none of them", () => {
    const old = cachedObject(
      robot("1", { spec: { same: { a: 1 }, other: [{ b: 1 }], texts: ["a", "b"] } }),
      robotType,
      undefined,
    );
    const spec = deepFreeze({ same: { a: 1 }, other: [{ b: 2 }], text: "t" });
    const before = JSON.stringify(spec);
    const next = cachedObject({ ...robot("2"), spec } as never, robotType, old) as { spec?: unknown };
    expect(next.spec).toBe(spec);
    expect(JSON.stringify(spec)).toBe(before);
    const half = { same: { a: 1 }, other: Object.freeze([{ b: 2 }]), texts: Object.freeze(["a", "c"]) };
    const mixed = cachedObject({ ...robot("3"), spec: half } as never, robotType, old) as { spec?: typeof half };
    expect(mixed.spec).toEqual(half);
    expect([mixed.spec, mixed.spec?.other, mixed.spec?.other[0]].every((part) => Object.isFrozen(part))).toBe(true);
  });

  test("equals the sent object for any previous state", () => {
    const value = fc.jsonValue({ maxDepth: 3 });
    fc.assert(
      fc.property(value, value, (before, after) => {
        const old = cachedObject(robot("1", { spec: before }), robotType, undefined);
        const next = cachedObject(robot("2", { spec: after }), robotType, old) as { spec?: unknown };
        expect(JSON.parse(JSON.stringify(next.spec))).toEqual(sent(after));
      }),
    );
  });

  test("keeps a field named __proto__", () => {
    const object = JSON.parse('{"metadata":{"name":"a"},"spec":{"__proto__":{"x":"y"}}}') as KubernetesObject;
    const cached = cachedObject(object, robotType, undefined) as { spec?: object };
    expect(JSON.stringify(cached.spec)).toBe('{"__proto__":{"x":"y"}}');
  });
});
