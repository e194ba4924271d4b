import type { KubernetesObject, OwnerReference } from "@keelson/api-machinery";
import { expect, test } from "vitest";
import { mapToOwners } from "./request-mapping.ts";
import { robotType } from "../testing/kinds.ts";

const owner = (name: string, more: Partial<OwnerReference> = {}): OwnerReference => ({
  ...{ apiVersion: "example.org/v1beta1", kind: "Robot", name, uid: name },
  ...more,
});
const owned = (namespace: string | undefined, ...ownerReferences: OwnerReference[]): KubernetesObject => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name: "c", ...(namespace === undefined ? {} : { namespace }), ownerReferences },
});

test("maps an object to every owner of the kind in any version, controller or not", () => {
  const references = [owner("one", { controller: true }), owner("two"), owner("three", { kind: "Dog" })];
  const object = owned("a", ...references, owner("four", { apiVersion: "v1" }));
  expect(mapToOwners(robotType)(object)).toEqual([
    { namespace: "a", name: "one" },
    { namespace: "a", name: "two" },
  ]);
});

test("maps to owners in the object's namespace, and to none for a cluster-scoped object", () => {
  expect(mapToOwners(robotType)(owned(undefined, owner("one")))).toEqual([]);
  const clusterWide = { ...robotType, scope: "Cluster" as const };
  expect(mapToOwners(clusterWide)(owned("a", owner("one")))).toEqual([{ name: "one" }]);
  expect(mapToOwners(clusterWide)(owned(undefined, owner("one")))).toEqual([{ name: "one" }]);
  expect(mapToOwners(robotType)({ apiVersion: "v1", kind: "ConfigMap", metadata: { namespace: "a", name: "c" } })).toEqual([]);
});
