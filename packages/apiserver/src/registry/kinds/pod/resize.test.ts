import type { KubernetesObject } from "@keelson/api-machinery";
import { expect, test } from "vitest";
import { resizeCauses } from "./resize.ts";
import { collectCauses } from "../../causes.ts";

function pod(cpu: string, restartPolicy?: string): KubernetesObject {
  const resources = (value: string) => ({ requests: { cpu: value }, limits: { cpu: "2" } });
  const init = { name: "first", image: "a", resources: resources(cpu), ...(restartPolicy !== undefined && { restartPolicy }) };
  const spec = { initContainers: [init], containers: [{ name: "main", image: "a", resources: resources("100m") }] };
  return { apiVersion: "v1", kind: "Pod", metadata: { name: "p" }, spec } as KubernetesObject;
}

test("resizes sidecars, but no other init containers", () => {
  expect(collectCauses(resizeCauses(pod("200m", "Always"), pod("100m", "Always")))).toEqual([]);
  expect(collectCauses(resizeCauses(pod("100m"), pod("100m")))).toEqual([]);
  expect(collectCauses(resizeCauses(pod("200m"), pod("100m")))).toMatchObject([
    { field: "spec", message: expect.stringContaining("resources for non-sidecar init containers are immutable") },
  ]);
});
