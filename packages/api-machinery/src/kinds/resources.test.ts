import { expect, expectTypeOf, test } from "vitest";
import * as builtIns from "./resources.ts";
import { apiVersionOf, type ObjectType } from "../objects/resource.ts";

test("addresses every built-in resource as Kubernetes does", () => {
  const addresses = Object.values(builtIns).map((type) => `${apiVersionOf(type)}/${type.plural} ${type.kind} ${type.scope}`);
  expect(new Set(addresses).size).toBe(addresses.length);
  expect(addresses).toContain("v1/namespaces Namespace Cluster");
  expect(addresses).toContain("batch/v1/jobs Job Namespaced");
  expect(addresses).toContain("rbac.authorization.k8s.io/v1/clusterrolebindings ClusterRoleBinding Cluster");
  expect(addresses).toContain("apiextensions.k8s.io/v1/customresourcedefinitions CustomResourceDefinition Cluster");
});

test("carries the object's type", () => {
  expectTypeOf<ObjectType<typeof builtIns.Job>["spec"]["backoffLimit"]>().toEqualTypeOf<number | undefined>();
});
