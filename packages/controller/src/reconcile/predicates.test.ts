import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import { describe, expect, test } from "vitest";
import {
  and,
  annotationChanged,
  deletionStarted,
  generationChanged,
  labelChanged,
  labelSelected,
  not,
  or,
  resourceVersionChanged,
} from "./predicates.ts";
import type { Predicate } from "./controller-definition.ts";

const object = (metadata: DeepReadonly<KubernetesObject["metadata"]>): DeepReadonly<KubernetesObject> => ({
  apiVersion: "v1",
  kind: "X",
  metadata,
});

const passes = (
  predicate: Predicate<KubernetesObject>,
  old: KubernetesObject["metadata"],
  now: KubernetesObject["metadata"],
): boolean => predicate({ type: "update", object: object(now), old: object(old) });

describe("predicates", () => {
  test.each<[string, Predicate<KubernetesObject>, KubernetesObject["metadata"]]>([
    ["generationChanged", generationChanged, { generation: 2 }],
    ["resourceVersionChanged", resourceVersionChanged, { resourceVersion: "2" }],
    ["labelChanged", labelChanged, { labels: { a: "2" } }],
    ["annotationChanged", annotationChanged, { annotations: { a: "2" } }],
    ["deletionStarted", deletionStarted, { deletionTimestamp: "2026-01-01T00:00:00Z" }],
  ])("%s passes only its own kind of update, and every create and delete", (_, predicate, change) => {
    const old = { generation: 1, resourceVersion: "1", labels: { a: "1" }, annotations: { a: "1" } };
    expect(passes(predicate, old, { ...old, ...change })).toBe(true);
    expect(passes(predicate, old, { ...old, finalizers: ["x"] })).toBe(false);
    expect(predicate({ type: "create", object: object(old) })).toBe(true);
    expect(predicate({ type: "delete", object: object(old), old: object(old) })).toBe(true);
  });

  test("labelSelected passes objects that match before or after the change", () => {
    const selected = labelSelected("a=1");
    expect(passes(selected, { labels: { a: "1" } }, {})).toBe(true);
    expect(passes(selected, {}, { labels: { a: "1" } })).toBe(true);
    expect(passes(selected, {}, { labels: { a: "2" } })).toBe(false);
  });

  test("and, or and not combine", () => {
    const yes: Predicate<KubernetesObject> = () => true;
    const no = not(yes);
    const verdict = (predicate: Predicate<KubernetesObject>): boolean => passes(predicate, {}, {});
    expect([and(yes, yes), and(yes, no), or(no, yes), or(no, no), not(no)].map(verdict)).toEqual([
      true,
      false,
      true,
      false,
      true,
    ]);
  });
});
