import type { NamespaceObject } from "@keelson/api-machinery/kinds";
import { expect, test } from "vitest";
import { decideNamespace } from "./namespace-decision.ts";

const namespace = (over: Partial<NamespaceObject["metadata"]> = {}, finalizers = ["kubernetes"]): NamespaceObject => ({
  apiVersion: "v1",
  kind: "Namespace",
  metadata: { name: "a", ...over },
  spec: { finalizers },
});
const node = (plural: string, isDeleting = false) => ({ type: { group: "", plural }, isDeleting });
const deleting = { deletionTimestamp: "2026-01-01T00:00:00Z" };

test("a namespace that is not being deleted is left alone", () => {
  expect(decideNamespace(namespace(), [node("secrets")])).toEqual({ kind: "nothing" });
});

test("objects are deleted first, and terminating ones are waited for", () => {
  const object = node("secrets");
  const terminating = node("configmaps", true);
  expect(decideNamespace(namespace(deleting), [object, terminating])).toEqual({ kind: "empty", objects: [object] });
  expect(decideNamespace(namespace(deleting), [terminating])).toEqual({ kind: "wait", remaining: [terminating] });
});

test("Pods are deleted before everything else", () => {
  const secret = node("secrets");
  expect(decideNamespace(namespace(deleting), [secret, node("pods")])).toEqual({ kind: "empty", objects: [node("pods")] });
  expect(decideNamespace(namespace(deleting), [secret, node("pods", true)])).toEqual({ kind: "wait", remaining: [] });
});

test("an empty namespace is finalized, keeping other finalizers", () => {
  expect(decideNamespace(namespace(deleting, ["kubernetes", "x/y"]), [])).toEqual({ kind: "finalize", finalizers: ["x/y"] });
  expect(decideNamespace(namespace(deleting, ["x/y"]), [])).toEqual({ kind: "nothing" });
});
