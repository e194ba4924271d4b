import { type KubernetesObject, type ResourceType, statusError } from "@keelson/api-machinery";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { describe, expect, test } from "vitest";
import type { Client } from "./client.ts";
import { createClient } from "./create-client.ts";
import { type ScriptedResponse, type ScriptedRequest, scriptedTransport } from "../testing/scripted-server.ts";

interface Job extends KubernetesObject {
  spec?: { n?: number };
}
const jobs: ResourceType<Job> = { group: "batch", version: "v1", kind: "Job", plural: "jobs", scope: "Namespaced" };
const pods: ResourceType = { group: "", version: "v1", kind: "Pod", plural: "pods", scope: "Namespaced" };
const bindings: ResourceType<KubernetesObject & { target: object }> = {
  group: "",
  version: "v1",
  kind: "Binding",
  plural: "bindings",
  scope: "Namespaced",
};
const nodes: ResourceType = { group: "", version: "v1", kind: "Node", plural: "nodes", scope: "Cluster" };

function make(answers: readonly ScriptedResponse[] = []) {
  const seen: ScriptedRequest[] = [];
  const warnings: string[] = [];
  const clock = createVirtualClock();
  const transport = scriptedTransport((request) => {
    seen.push(request);
    return answers[seen.length - 1] ?? { status: 200, body: {} };
  });
  const client: Client = createClient({ transport, fieldManager: "me", clock, onWarning: (warning) => warnings.push(warning) });
  return { client, seen, clock, warnings };
}

describe("client", () => {
  test("returns the empty list that a server in Go sends as null", async () => {
    const body = { kind: "PartialObjectMetadataList", metadata: { resourceVersion: "7" }, items: null };
    const { client } = make([{ status: 200, body }]);
    expect(await client.list(jobs, { metadataOnly: true })).toMatchObject({ metadata: { resourceVersion: "7" }, items: [] });
  });

  test.each<[string, (client: Client) => Promise<unknown>, Partial<ScriptedRequest>]>([
    ["get", (c) => c.get(jobs, { namespace: "a", name: "b" }), { method: "GET", path: "/apis/batch/v1/namespaces/a/jobs/b" }],
    ["get of a cluster-scoped kind", (c) => c.get(nodes, { name: "n" }), { method: "GET", path: "/api/v1/nodes/n" }],
    [
      "list of all namespaces",
      (c) => c.list(jobs, { limit: 5 }),
      { method: "GET", path: "/apis/batch/v1/jobs", query: { limit: "5" } },
    ],
    [
      "create",
      (c) => c.create(jobs, { metadata: { namespace: "a", generateName: "b-" }, spec: { n: 1 } }, { dryRun: true }),
      {
        method: "POST",
        path: "/apis/batch/v1/namespaces/a/jobs",
        query: { fieldManager: "me", dryRun: "All" },
        body: { apiVersion: "batch/v1", kind: "Job", metadata: { namespace: "a", generateName: "b-" }, spec: { n: 1 } },
      },
    ],
    [
      "create in a subresource",
      (c) =>
        c.create(
          bindings,
          { metadata: { namespace: "a", name: "p" }, target: { name: "n" } },
          { subresource: { of: pods, name: "binding" } },
        ),
      {
        method: "POST",
        path: "/api/v1/namespaces/a/pods/p/binding",
        body: { apiVersion: "v1", kind: "Binding", metadata: { namespace: "a", name: "p" }, target: { name: "n" } },
      },
    ],
    [
      "updateStatus",
      (c) => c.updateStatus(jobs, { apiVersion: "x", kind: "y", metadata: { namespace: "a", name: "b" } }),
      {
        method: "PUT",
        path: "/apis/batch/v1/namespaces/a/jobs/b/status",
        query: { fieldManager: "me" },
        body: { apiVersion: "batch/v1", kind: "Job", metadata: { namespace: "a", name: "b" } },
      },
    ],
    [
      "patch",
      (c) =>
        c.patch(
          jobs,
          { namespace: "a", name: "b" },
          { type: "json", operations: [{ op: "remove", path: "/x" }] },
          { subresource: "scale" },
        ),
      { method: "PATCH", path: "/apis/batch/v1/namespaces/a/jobs/b/scale", body: [{ op: "remove", path: "/x" }] },
    ],
    [
      "apply",
      (c) => c.apply(jobs, { metadata: { namespace: "a", name: "b" }, spec: { n: 1 } }, { fieldManager: "other" }),
      {
        method: "PATCH",
        path: "/apis/batch/v1/namespaces/a/jobs/b",
        query: { fieldManager: "other", force: "true" },
        body: { apiVersion: "batch/v1", kind: "Job", metadata: { namespace: "a", name: "b" }, spec: { n: 1 } },
      },
    ],
    [
      "delete",
      (c) => c.delete(jobs, { namespace: "a", name: "b" }, { propagationPolicy: "Foreground", preconditions: { uid: "u" } }),
      {
        method: "DELETE",
        path: "/apis/batch/v1/namespaces/a/jobs/b",
        body: { apiVersion: "v1", kind: "DeleteOptions", propagationPolicy: "Foreground", preconditions: { uid: "u" } },
      },
    ],
  ])("%s sends what the API expects", async (_, call, expected) => {
    const { client, seen } = make();
    await call(client);
    expect(seen[0]).toMatchObject(expected);
    expect(seen[0]?.headers["user-agent"]).toBe("me");
  });

  test("throws the server's Status, or creates one for a response without", async () => {
    const { client } = make([
      { status: 409, body: statusError("Conflict", "moved on").status },
      { status: 502, body: "<html>bad gateway</html>" },
    ]);
    await expect(client.get(nodes, { name: "n" })).rejects.toMatchObject({
      reason: "Conflict",
      message: "moved on",
      code: 409,
    });
    await expect(client.get(nodes, { name: "n" })).rejects.toMatchObject({
      reason: "InternalError",
      code: 502,
      message: /bad gateway/,
    });
  });

  test.each(["", ".", "..", undefined])(
    "rejects the namespace %j for a namespaced kind without a request",
    async (namespace) => {
      const { client, seen } = make();
      await expect(client.get(jobs, { namespace, name: "b" })).rejects.toMatchObject({ reason: "BadRequest" });
      expect(seen).toEqual([]);
    },
  );

  test("encodes names, so that none can change the path", async () => {
    const { client, seen } = make();
    await client.get(nodes, { name: "a/../b?c" });
    expect(seen[0]?.path).toBe("/api/v1/nodes/a%2F..%2Fb%3Fc");
  });

  test("retries a 429 after its Retry-After", async () => {
    const { client, seen, clock } = make([{ status: 429, body: {}, headers: { "retry-after": "3" } }]);
    const got = client.get(nodes, { name: "n" });
    await clock.advance(2_999);
    expect(seen.length).toBe(1);
    await clock.advance(1);
    await got;
    expect(seen.length).toBe(2);
  });

  test("does not retry a create, a response without Retry-After, or indefinitely", async () => {
    const tooMany: ScriptedResponse = { status: 429, body: {}, headers: { "retry-after": "1" } };
    const { client, seen, clock } = make([tooMany, { status: 503, body: {} }, ...Array.from({ length: 10 }, () => tooMany)]);
    await expect(client.create(nodes, { metadata: { name: "n" } })).rejects.toMatchObject({ code: 429 });
    await expect(client.get(nodes, { name: "n" })).rejects.toMatchObject({ code: 503 });
    const got = client.get(nodes, { name: "n" });
    got.catch(() => {});
    await clock.advance(60_000);
    await expect(got).rejects.toMatchObject({ code: 429 });
    expect(seen.length).toBe(2 + 5);
    expect(clock.pendingTimers).toBe(0);
  });

  test("reports the server's warnings", async () => {
    const { client, warnings } = make([{ status: 200, body: {}, headers: { warning: '299 - "one \\"x\\"", 299 - "two"' } }]);
    await client.get(nodes, { name: "n" });
    expect(warnings).toEqual(['one "x"', "two"]);
  });
});
