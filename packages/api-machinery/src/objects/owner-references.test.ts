import { expect, test } from "vitest";
import {
  controllerReference,
  getController,
  isControlledBy,
  ownerReference,
  refersTo,
  removeOwnerReference,
  setControllerReference,
  setOwnerReference,
} from "./owner-references.ts";

const owner = { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "d", namespace: "ns", uid: "1" } };
const child = { kind: "Pod", metadata: { name: "p", namespace: "ns" } };

test("sets the controller reference", () => {
  const ownerReferences = setControllerReference(child, owner);
  expect(ownerReferences).toEqual([
    { apiVersion: "apps/v1", kind: "Deployment", name: "d", uid: "1", controller: true, blockOwnerDeletion: true },
  ]);
  const owned = { metadata: { ...child.metadata, ownerReferences } };
  expect(getController(owned)).toEqual(controllerReference(owner));
  expect(isControlledBy(owned, owner)).toBe(true);
  expect(setControllerReference(owned, { ...owner, apiVersion: "apps/v2" })).toMatchObject([
    { apiVersion: "apps/v2", uid: "1" },
  ]);
  expect(removeOwnerReference(owned, owner)).toEqual([]);
});

test("treats an owner that was recreated under the same name as a different owner", () => {
  const owned = { ...child, metadata: { ...child.metadata, ownerReferences: setControllerReference(child, owner) } };
  const anew = { ...owner, metadata: { ...owner.metadata, uid: "2" } };
  expect(isControlledBy(owned, anew)).toBe(false);
  expect(() => setControllerReference(owned, anew)).toThrow(
    expect.objectContaining({ code: "AlreadyOwned", message: "Pod p is already owned by the Deployment controller d (uid 1)" }),
  );
});

test("adds a non-controller owner next to the controller", () => {
  const owned = { metadata: { ...child.metadata, ownerReferences: setControllerReference(child, owner) } };
  const other = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "c", namespace: "ns", uid: "9" } };
  expect(setOwnerReference(owned, other)).toHaveLength(2);
  expect(setOwnerReference(owned, owner)).toEqual([controllerReference(owner)]);
});

test("rejects owners in other namespaces and namespaced owners of cluster-scoped objects", () => {
  expect(() => setControllerReference({ metadata: { name: "p", namespace: "other" } }, owner)).toThrow(
    expect.objectContaining({ code: "CrossNamespace" }),
  );
  expect(() => setOwnerReference({ metadata: { name: "node" } }, owner)).toThrow(
    expect.objectContaining({ code: "ClusterScopedDependent" }),
  );
  const cluster = { ...owner, metadata: { name: "d", uid: "1" } };
  expect(setControllerReference(child, cluster)).toHaveLength(1);
});

test("names the missing field of an owner that has not been created yet", () => {
  expect(() => ownerReference({ ...owner, metadata: { name: "d" } })).toThrow("owner Deployment d has no metadata.uid");
});

test("matches references by group and kind, regardless of version", () => {
  expect(refersTo(controllerReference(owner), { group: "apps", kind: "Deployment" })).toBe(true);
  expect(refersTo(controllerReference(owner), { group: "", kind: "Deployment" })).toBe(false);
});
