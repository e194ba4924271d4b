import { describe, expect, test } from "vitest";
import type { JsonObject } from "../objects/json.ts";
import type { KubernetesObject } from "../objects/object.ts";
import { lastAppliedAnnotation } from "./last-applied.ts";
import { apiVersion, apply, owned, refusal, track, widget } from "./testing/widget.ts";

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

  test("are all counted, and the first thousand named", () => {
    const items = (port: number): JsonObject[] => Array.from({ length: 1_500 }, (_, index) => ({ name: `i${index}`, port }));
    const many = apply(undefined, "alice", widget({ spec: { items: items(1) } }));
    const error = refusal(() => apply(many, "bob", widget({ spec: { items: items(2) } })));
    expect(error.fields).toHaveLength(1_000);
    expect(error.message.split("\n- ")).toHaveLength(1_001);
    expect(error.message).toMatch(/^Apply failed with 1500 conflicts: /);
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
