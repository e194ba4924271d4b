import { expect, test } from "vitest";
import { networkNames, podNamespace, podOfNamespace } from "./network-names.ts";

const names = networkNames("/data", "10.70", "10.134");

test("the namespace of a Pod is found by its name", () => {
  expect(podOfNamespace(names, podNamespace(names, "uid"))).toBe("uid");
});

test("namespaces of sandboxes and of other data directories are not those of Pods", () => {
  const id = names.router.slice("keelson-".length);
  const sandbox = `keelson-${id.padEnd(32, "0")}`;
  const other = networkNames("/other", "10.71", "10.135");
  for (const name of [sandbox, names.router, other.router, podNamespace(other, "uid"), "cni-1"]) {
    expect(podOfNamespace(names, name)).toBeUndefined();
  }
});
