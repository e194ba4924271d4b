import type { NamespaceObject } from "@keelson/api-machinery/kinds";
import { expect, test } from "vitest";
import { decideNamespace } from "./namespace-decision.ts";

const namespace = (over: Partial<NamespaceObject["metadata"]> = {}, finalizers = ["kubernetes"]): NamespaceObject => ({
  apiVersion: "v1",
  kind: "Namespace",
  metadata: { name: "a", ...over },
  spec: { finalizers },
});
const deleting = { deletionTimestamp: "2026-01-01T00:00:00Z" };

test("a namespace that is not being deleted is left alone", () => {
  expect(decideNamespace(namespace(), [{ isDeleting: false }])).toEqual({ kind: "nothing" });
});

test("objects are deleted first, and terminating ones are waited for", () => {
  const object = { isDeleting: false };
  expect(decideNamespace(namespace(deleting), [object, { isDeleting: true }])).toEqual({ kind: "empty", objects: [object] });
  expect(decideNamespace(namespace(deleting), [{ isDeleting: true }])).toEqual({ kind: "nothing" });
});

test("an empty namespace is finalized, keeping other finalizers", () => {
  expect(decideNamespace(namespace(deleting, ["kubernetes", "x/y"]), [])).toEqual({ kind: "finalize", finalizers: ["x/y"] });
  expect(decideNamespace(namespace(deleting, ["x/y"]), [])).toEqual({ kind: "nothing" });
});
