import type { KubernetesObject } from "@keelson/api-machinery";
import { expect, it } from "vitest";
import { startTestEnvironment } from "../../../testing/test-environment.ts";
import { metricsKinds } from "./metrics.ts";

function podMetrics(namespace: string, name: string, app: string): KubernetesObject {
  return {
    apiVersion: "metrics.k8s.io/v1beta1",
    kind: "PodMetrics",
    metadata: { name, namespace, labels: { app } },
    containers: [{ name: "main", usage: { cpu: "5m", memory: "10Ki" } }],
  } as KubernetesObject;
}

const root = "/apis/metrics.k8s.io/v1beta1";

it("serves metrics.k8s.io from what the node measures", async () => {
  const node = { apiVersion: "metrics.k8s.io/v1beta1", kind: "NodeMetrics", metadata: { name: "n" } } as KubernetesObject;
  const pods = [podMetrics("a", "one", "x"), podMetrics("a", "two", "y"), podMetrics("b", "one", "x")];
  await using environment = await startTestEnvironment({
    kinds: metricsKinds({ nodeMetrics: async () => [node], podMetrics: async () => pods }),
  });
  const get = async (path: string, query = {}): Promise<{ status: number; body: unknown }> => {
    const { status, body } = await environment.transport().request({ method: "GET", path: `${root}${path}`, query });
    return { status, body };
  };
  const names = async (path: string, query = {}): Promise<readonly string[]> =>
    ((await get(path, query)).body as { items: readonly KubernetesObject[] }).items.map(
      ({ metadata }) => `${metadata.namespace ?? ""}/${metadata.name}`,
    );

  expect(await names("/nodes")).toEqual(["/n"]);
  expect(await names("/pods")).toEqual(["a/one", "a/two", "b/one"]);
  expect(await names("/namespaces/a/pods")).toEqual(["a/one", "a/two"]);
  expect(await names("/pods", { labelSelector: "app=x" })).toEqual(["a/one", "b/one"]);
  expect(await get("/namespaces/b/pods/one")).toEqual({ status: 200, body: pods[2] });
  expect((await get("/namespaces/b/pods/two")).status).toBe(404);
  const created = await environment.transport().request({ method: "POST", path: `${root}/namespaces/b/pods`, body: pods[0] });
  expect(created.status).toBe(405);
});
