import type { KubernetesObject, ResourceType } from "@keelson/api-machinery";
import { ClusterRole, ClusterRoleBinding, Namespace, type PolicyRule, ServiceAccount } from "@keelson/api-machinery/kinds";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import type { ApiRequest, Transport } from "@keelson/api-machinery/transport";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { describe, expect, test } from "vitest";
import { accessReviewRules } from "../access/cluster-identities.ts";
import { bearerTokenOf, isTrustedHost, reviewedAccess, tokenAccess } from "./probe-access.ts";

test.each([
  ["127.0.0.1:8080", true],
  ["10.1.2.3", true],
  ["[::1]:8080", true],
  ["localhost:8080", true],
  ["LOCALHOST", true],
  ["metrics.internal:8080", true],
  ["evil.example", false],
  ["evil.example:8080", false],
  ["127.0.0.1.evil.example:8080", false],
  ["localhost.evil.example", false],
  ["user@127.0.0.1", false],
  ["", false],
  [undefined, false],
])("trusts the Host header %j: %j", async (header, expected) => {
  expect(await isTrustedHost(header, ["metrics.internal"])).toBe(expected);
});

test("reads the token of a bearer header only", () => {
  expect(["Bearer abc", "bearer  abc ", "Basic abc", "Bearer", "Bearer a b", undefined].map(bearerTokenOf)).toEqual([
    ...["abc", "abc"],
    ...[undefined, undefined, undefined, undefined],
  ]);
});

test("allows the token", async () => {
  const access = tokenAccess("secret");
  const ask = (token: string | undefined) => access({ token, path: "/metrics", verb: "get" });
  expect([await ask("secret"), await ask("secre"), await ask(undefined)]).toEqual([
    "allowed",
    "unauthenticated",
    "unauthenticated",
  ]);
});

describe("access reviewed by the API server", () => {
  interface TokenRequest extends KubernetesObject {
    spec?: { audiences?: string[] };
    status?: { token?: string };
  }
  const tokenRequestType: ResourceType<TokenRequest> = {
    ...{ group: "authentication.k8s.io", version: "v1", kind: "TokenRequest", plural: "tokenrequests", scope: "Namespaced" },
  };

  async function bind(admin: Client, name: string, rules: readonly PolicyRule[], namespace = "a"): Promise<void> {
    await admin.create(ServiceAccount, { metadata: { namespace, name } });
    await admin.create(ClusterRole, { metadata: { name }, rules: rules });
    await admin.create(ClusterRoleBinding, {
      metadata: { name },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name },
      subjects: [{ kind: "ServiceAccount", namespace, name }],
    });
  }

  test("is allowed for users who may get the path, needs only the documented rules, and is cached", async () => {
    await using environment = await startTestEnvironment();
    const admin = createClient({ transport: environment.transport(), fieldManager: "test" });
    await admin.create(Namespace, { metadata: { name: "a" } });
    await bind(admin, "scraper", [{ nonResourceURLs: ["/metrics"], verbs: ["get"] }]);
    await bind(admin, "operator", accessReviewRules);
    await bind(admin, "powerless", []);
    const asked: string[] = [];
    const accessOf = (name: string, clock = createVirtualClock()) => {
      const username = `system:serviceaccount:a:${name}`;
      const transport = environment.transport({ username, groups: ["system:authenticated"] });
      const counted: Transport = {
        ...{ watch: (request: ApiRequest) => transport.watch(request), close: () => transport.close() },
        request: (request) => (asked.push(request.path), transport.request(request)),
      };
      return reviewedAccess({ client: createClient({ transport: counted, fieldManager: "test" }), clock });
    };
    const subresource = { of: ServiceAccount, name: "token" as const };
    const made = await admin.create(
      tokenRequestType,
      { metadata: { namespace: "a", name: "scraper" }, spec: {} },
      { subresource },
    );
    const token = made.status?.token ?? "";
    const clock = createVirtualClock();
    const access = accessOf("operator", clock);
    const get = (path: string, given: string | undefined = token) => access({ token: given, path, verb: "get" });

    expect([await get("/metrics"), await get("/debug/reconciles"), await get("/metrics", `${token}x`)]).toEqual([
      ...["allowed", "forbidden", "unauthenticated"],
    ]);
    expect(await access({ token, path: "/metrics", verb: "post" })).toBe("forbidden");
    asked.length = 0;
    expect([await get("/metrics"), await get("/metrics", ""), asked]).toEqual(["allowed", "unauthenticated", []]);

    await admin.delete(ClusterRoleBinding, { name: "scraper" });
    await clock.advance(9_999);
    expect(await get("/metrics")).toBe("allowed");
    await clock.advance(1);
    expect(await get("/metrics")).toBe("forbidden");
    await expect(accessOf("powerless")({ token, path: "/metrics", verb: "get" })).rejects.toMatchObject({
      reason: "Forbidden",
    });
  });
});
