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
  expect(decideNamespace(namespace(), [node("secrets")], true)).toEqual({ kind: "nothing" });
});

test("objects are deleted first, and terminating ones are waited for", () => {
  const object = node("secrets");
  const terminating = node("configmaps", true);
  expect(decideNamespace(namespace(deleting), [object, terminating], true)).toEqual({ kind: "empty", objects: [object] });
  expect(decideNamespace(namespace(deleting), [terminating], true)).toEqual({ kind: "wait", remaining: [terminating] });
});

test("Pods are deleted before everything else", () => {
  const secret = node("secrets");
  expect(decideNamespace(namespace(deleting), [secret, node("pods")], true)).toEqual({
    kind: "empty",
    objects: [node("pods")],
  });
  expect(decideNamespace(namespace(deleting), [secret, node("pods", true)], true)).toEqual({ kind: "wait", remaining: [] });
});

test("an empty namespace is finalized, keeping other finalizers", () => {
  expect(decideNamespace(namespace(deleting, ["kubernetes", "x/y"]), [], true)).toEqual({
    kind: "finalize",
    finalizers: ["x/y"],
  });
  expect(decideNamespace(namespace(deleting, ["x/y"]), [], true)).toEqual({ kind: "nothing" });
});

test("a namespace is not finalized while some of its content cannot be read", () => {
  expect(decideNamespace(namespace(deleting), [], false)).toEqual({ kind: "wait", remaining: [] });
  expect(decideNamespace(namespace(deleting), [node("secrets")], false)).toMatchObject({ kind: "empty" });
});
