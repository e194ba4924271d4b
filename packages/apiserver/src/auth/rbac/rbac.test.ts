import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { KubernetesObject } from "@keelson/api-machinery";
import type { PolicyRule } from "@keelson/api-machinery/kinds";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { UserInfo } from "../../registry/served-resource.ts";
import { openStore } from "../../storage/open-store.ts";
import { type Store, storageKey } from "../../storage/store.ts";
import { ensureDefaultRoles } from "./default-roles.ts";
import { escalation } from "./escalation.ts";
import { formatRule, ruleAllows, uncoveredRules } from "./policy-rule.ts";
import { type Authorizer, createRbacAuthorizer, forbidden } from "./rbac-authorizer.ts";
import { rbacGroup } from "./role-index.ts";

let store: Store;
let authorizer: Authorizer;
let directory: string;
let ids = 0;
const newId = (): string => `00000000-0000-4000-8000-${String(ids++).padStart(12, "0")}`;

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), "keelson-rbac-"));
  store = await openStore({ dir: directory, clock: createVirtualClock(), sync: false });
  authorizer = createRbacAuthorizer(store);
});
afterEach(async () => {
  authorizer.close();
  await store.close();
  rmSync(directory, { recursive: true, force: true });
});

type Subject = { kind: string; name: string; namespace?: string };

const plurals: Record<string, string> = {
  Role: "roles",
  ClusterRole: "clusterroles",
  RoleBinding: "rolebindings",
  ClusterRoleBinding: "clusterrolebindings",
};

async function put(object: KubernetesObject): Promise<void> {
  const key = keyOf(object);
  const result = await store.write(key, store.get(key)?.revision ?? 0, object);
  expect(result.ok).toBe(true);
}

async function remove(object: KubernetesObject): Promise<void> {
  expect((await store.write(keyOf(object), store.get(keyOf(object))?.revision ?? 0, undefined)).ok).toBe(true);
}

function keyOf({ kind, metadata }: KubernetesObject): string {
  return storageKey({ group: rbacGroup, plural: plurals[kind] ?? "" }, metadata.namespace ?? "", metadata.name ?? "");
}

const apiVersion = `${rbacGroup}/v1`;

function role(name: string, namespace: string | undefined, rules: readonly PolicyRule[], more: object = {}): KubernetesObject {
  const kind = namespace === undefined ? "ClusterRole" : "Role";
  return {
    apiVersion,
    kind,
    metadata: { name, ...(namespace === undefined ? {} : { namespace }) },
    rules,
    ...more,
  } as KubernetesObject;
}

function binding(
  name: string,
  namespace: string | undefined,
  roleRef: { kind: string; name: string },
  subjects: readonly Subject[],
): KubernetesObject {
  const kind = namespace === undefined ? "ClusterRoleBinding" : "RoleBinding";
  const metadata = { name, ...(namespace === undefined ? {} : { namespace }) };
  return { apiVersion, kind, metadata, roleRef: { apiGroup: rbacGroup, ...roleRef }, subjects } as KubernetesObject;
}

const user = (username: string, ...groups: string[]): UserInfo => ({ username, groups });
const pods = (namespace: string, more: { name?: string; subresource?: string } = {}) => ({
  group: "",
  resource: "pods",
  namespace,
  ...more,
});
const may = (who: UserInfo, verb: string, target: Parameters<Authorizer["authorize"]>[2]): boolean =>
  authorizer.authorize(who, verb, target).allowed;

const readPods: PolicyRule = { verbs: ["get", "list"], apiGroups: [""], resources: ["pods"] };

describe("a rule", () => {
  const target = { group: "apps", resource: "deployments", namespace: "a", name: "web" };

  test.each<[string, PolicyRule, boolean]>([
    ["exactly", { verbs: ["get"], apiGroups: ["apps"], resources: ["deployments"] }, true],
    ["by stars", { verbs: ["*"], apiGroups: ["*"], resources: ["*"] }, true],
    ["not by another verb", { verbs: ["list"], apiGroups: ["apps"], resources: ["deployments"] }, false],
    ["not by another group", { verbs: ["get"], apiGroups: [""], resources: ["deployments"] }, false],
    ["not by a subresource", { verbs: ["get"], apiGroups: ["apps"], resources: ["deployments/scale", "*/scale"] }, false],
    ["by its name", { verbs: ["get"], apiGroups: ["apps"], resources: ["deployments"], resourceNames: ["web"] }, true],
    ["not by another name", { verbs: ["get"], apiGroups: ["apps"], resources: ["deployments"], resourceNames: ["db"] }, false],
    ["not by a path", { verbs: ["get"], nonResourceURLs: ["*"] }, false],
    ["not by nothing", { verbs: ["get"] }, false],
  ])("allows a resource %s", (_, rule, allowed) => {
    expect(ruleAllows(rule, "get", target)).toBe(allowed);
  });

  test.each<[string[], boolean]>([
    [["deployments/scale"], true],
    [["*/scale"], true],
    [["*"], true],
    [["deployments"], false],
    [["deployments/*"], false],
    [["*/status"], false],
  ])("on %j allows deployments/scale: %s", (resources, allowed) => {
    expect(ruleAllows({ verbs: ["get"], apiGroups: ["apps"], resources }, "get", { ...target, subresource: "scale" })).toBe(
      allowed,
    );
  });

  test.each<[string, string, boolean]>([
    ["*", "/x", true],
    ["/healthz", "/healthz", true],
    ["/healthz", "/healthz/ping", false],
    ["/healthz/*", "/healthz/ping", true],
    ["/healthz/*", "/healthz", false],
    ["/api*", "/apis", true],
  ])("on the path %s allows %s: %s", (pattern, path, allowed) => {
    expect(ruleAllows({ verbs: ["get"], nonResourceURLs: [pattern] }, "get", { path })).toBe(allowed);
  });

  test("matches a request with a resource as a resource, even if it has a path", () => {
    const info = { group: "", resource: "pods", namespace: "a", path: "/api/v1/namespaces/a/pods" };
    expect([ruleAllows(readPods, "list", info), ruleAllows({ verbs: ["list"], nonResourceURLs: ["*"] }, "list", info)]).toEqual(
      [true, false],
    );
    expect(forbidden(user("x"), "list", info).message).toContain('cannot list resource "pods"');
  });

  test("with resource names does not allow requests without a name, such as create and list", () => {
    expect(ruleAllows({ ...readPods, resourceNames: ["a"] }, "list", { group: "", resource: "pods", namespace: "x" })).toBe(
      false,
    );
  });
});

describe("coverage of rules", () => {
  const small = (values: string[]) => fc.uniqueArray(fc.constantFrom(...values), { maxLength: 3 });
  const rules = fc.array(
    fc.record({
      verbs: small(["get", "list", "*"]),
      apiGroups: small(["", "apps", "*"]),
      resources: small(["pods", "pods/log", "*/log", "*"]),
      resourceNames: small(["a", "b"]),
      nonResourceURLs: small(["/a", "/a/*", "*"]),
    }),
    { maxLength: 4 },
  );
  const targets = ["", "apps", "batch"].flatMap((group) =>
    ["pods", "jobs"].flatMap((resource) =>
      ["", "log", "exec"].flatMap((subresource) =>
        ["", "a", "b", "c"].map((name) => ({ group, resource, subresource, name, namespace: "n" })),
      ),
    ),
  );
  const paths = ["/a", "/a/b", "/c"].map((path) => ({ path }));

  test("holds only if no new permission is granted", () => {
    fc.assert(
      fc.property(rules, rules, (held, wanted) => {
        fc.pre(uncoveredRules(held, wanted).length === 0);
        for (const target of [...targets, ...paths]) {
          for (const verb of ["get", "list", "watch"]) {
            const gained =
              wanted.some((rule) => ruleAllows(rule, verb, target)) && !held.some((rule) => ruleAllows(rule, verb, target));
            expect(gained).toBe(false);
          }
        }
      }),
      { numRuns: 500 },
    );
  });

  test("holds for any rules with themselves, split over several rules, and by cluster-admin", () => {
    fc.assert(
      fc.property(rules, (some) => {
        expect(uncoveredRules(some, some)).toEqual([]);
        expect(
          uncoveredRules(
            [
              { verbs: ["*"], apiGroups: ["*"], resources: ["*"] },
              { verbs: ["*"], nonResourceURLs: ["*"] },
            ],
            some,
          ),
        ).toEqual([]);
      }),
    );
    const parts = ["get", "list"].flatMap((verb) =>
      ["pods", "secrets"].map((name) => ({ verbs: [verb], apiGroups: [""], resources: [name] })),
    );
    expect(uncoveredRules(parts, [{ verbs: ["get", "list"], apiGroups: [""], resources: ["pods", "secrets"] }])).toEqual([]);
  });

  test("reports the missing permissions, and fails for rules that expand to millions of permissions", () => {
    const missing = uncoveredRules(
      [readPods],
      [{ verbs: ["get", "delete"], apiGroups: [""], resources: ["pods"], resourceNames: ["x"] }],
    );
    expect(missing.map(formatRule)).toEqual(['{APIGroups:[""], Resources:["pods"], ResourceNames:["x"], Verbs:["delete"]}']);
    const many = Array.from({ length: 1_000 }, (_, index) => `n${index}`);
    expect(() => uncoveredRules([], [{ verbs: many, apiGroups: many, resources: many }])).toThrow(RangeError);
  });
});

describe("the authorizer", () => {
  test("applies a RoleBinding in its namespace only, and a ClusterRoleBinding everywhere", async () => {
    await put(role("reader", "a", [readPods]));
    await put(binding("reader", "a", { kind: "Role", name: "reader" }, [{ kind: "User", name: "jane" }]));
    expect(may(user("jane"), "get", pods("a", { name: "p" }))).toBe(true);
    expect(may(user("jane"), "get", pods("b"))).toBe(false);
    expect(may(user("jane"), "list", pods(""))).toBe(false);
    expect(may(user("jane"), "get", pods("a", { subresource: "log" }))).toBe(false);
    expect(may(user("bob"), "get", pods("a"))).toBe(false);
    expect(authorizer.authorize(user("jane"), "get", pods("a")).reason).toBe(
      'RBAC: allowed by RoleBinding "reader/a" of Role "reader" to User "jane"',
    );
    await put(role("all-pods", undefined, [readPods, { verbs: ["get"], nonResourceURLs: ["/metrics"] }]));
    await put(binding("all", undefined, { kind: "ClusterRole", name: "all-pods" }, [{ kind: "Group", name: "dev" }]));
    for (const namespace of ["", "a", "b"]) expect(may(user("bob", "dev"), "list", pods(namespace))).toBe(true);
    expect(may(user("bob", "dev"), "get", { path: "/metrics" })).toBe(true);
    await put(binding("ns", "a", { kind: "ClusterRole", name: "all-pods" }, [{ kind: "User", name: "eve" }]));
    expect(may(user("eve"), "list", pods("a"))).toBe(true);
    expect(may(user("eve"), "list", pods("b"))).toBe(false);
    // A namespaced binding of a ClusterRole gives no paths.
    expect(may(user("eve"), "get", { path: "/metrics" })).toBe(false);
  });

  test("supports service accounts as subjects, and does not confuse a user with a group of the same name", async () => {
    await put(role("reader", undefined, [readPods]));
    await put(
      binding("b", "a", { kind: "ClusterRole", name: "reader" }, [
        { kind: "ServiceAccount", name: "bot" },
        { kind: "ServiceAccount", name: "bot", namespace: "other" },
        { kind: "Group", name: "jane" },
      ]),
    );
    expect(may(user("system:serviceaccount:a:bot"), "get", pods("a"))).toBe(true);
    expect(may(user("system:serviceaccount:other:bot"), "get", pods("a"))).toBe(true);
    expect(may(user("system:serviceaccount:b:bot"), "get", pods("a"))).toBe(false);
    expect(may(user("jane"), "get", pods("a"))).toBe(false);
  });

  test("follows changes of rules and subjects, and deletions", async () => {
    const bound = binding("x", "a", { kind: "Role", name: "r" }, [
      { kind: "User", name: "jane" },
      { kind: "User", name: "bob" },
    ]);
    await put(bound);
    expect(may(user("jane"), "get", pods("a"))).toBe(false);
    await put(role("r", "a", [readPods]));
    expect(may(user("jane"), "get", pods("a"))).toBe(true);
    await put(role("r", "a", [{ ...readPods, verbs: ["delete"] }]));
    expect([may(user("jane"), "get", pods("a")), may(user("jane"), "delete", pods("a"))]).toEqual([false, true]);
    await put({ ...bound, subjects: [{ kind: "User", name: "bob" }] } as KubernetesObject);
    expect([may(user("jane"), "delete", pods("a")), may(user("bob"), "delete", pods("a"))]).toEqual([false, true]);
    await remove(bound);
    expect(may(user("bob"), "delete", pods("a"))).toBe(false);
    const late = createRbacAuthorizer(store);
    expect(late.rulesOfRole(`${rbacGroup}/roles/a/r`)).toHaveLength(1);
    await remove(role("r", "a", []));
    expect(late.rulesOfRole(`${rbacGroup}/roles/a/r`)).toBeUndefined();
    late.close();
  });

  test("aggregates the rules of selected roles, including transitive and circular ones", async () => {
    const selects = (label: string): object => ({
      aggregationRule: { clusterRoleSelectors: [{ matchLabels: { [label]: "true" } }] },
    });
    const labelled = (object: KubernetesObject, label: string): KubernetesObject => ({
      ...object,
      metadata: { ...object.metadata, labels: { [label]: "true" } },
    });
    await put(labelled(role("outer", undefined, [], selects("inner")), "outer"));
    await put(labelled(role("inner", undefined, [], selects("leaf")), "inner"));
    await put(binding("b", undefined, { kind: "ClusterRole", name: "outer" }, [{ kind: "User", name: "jane" }]));
    expect(may(user("jane"), "get", pods("a"))).toBe(false);
    await put(labelled(role("leaf", undefined, [readPods], selects("outer")), "leaf"));
    expect(may(user("jane"), "get", pods("a"))).toBe(true);
    await put(role("leaf", undefined, [readPods]));
    expect(may(user("jane"), "get", pods("a"))).toBe(false);
    await put(role("empty", undefined, [], { aggregationRule: { clusterRoleSelectors: [{}] } }));
    expect(authorizer.rulesOfRole(`${rbacGroup}/clusterroles//empty`)).toEqual([]);
  });

  test("allows system:masters everything, and ignores malformed objects", async () => {
    expect(may(user("root", "system:masters"), "delete", pods("a"))).toBe(true);
    expect(may(user("root", "system:masters"), "get", { path: "/x" })).toBe(true);
    for (const odd of [null, 5, "x", {}, [null, 5, { verbs: "get" }, { verbs: [1] }]]) {
      await put({ ...role("odd", "a", []), rules: odd } as KubernetesObject);
      await put({ ...binding("odd", "a", { kind: "Role", name: "odd" }, []), subjects: odd } as KubernetesObject);
      expect(may(user("jane"), "get", pods("a"))).toBe(false);
    }
  });

  test.each([
    [
      { group: "", resource: "pods", namespace: "default" },
      "list",
      'pods is forbidden: User "x" cannot list resource "pods" in API group "" in the namespace "default"',
      { kind: "pods" },
    ],
    [
      { group: "apps", resource: "deployments", namespace: "d", name: "w", subresource: "scale" },
      "get",
      'deployments.apps "w" is forbidden: User "x" cannot get resource "deployments/scale" in API group "apps" in the namespace "d"',
      { name: "w", group: "apps", kind: "deployments" },
    ],
    [
      { group: "", resource: "nodes" },
      "list",
      'nodes is forbidden: User "x" cannot list resource "nodes" in API group "" at the cluster scope',
      { kind: "nodes" },
    ],
    [{ path: "/metrics" }, "get", 'forbidden: User "x" cannot get path "/metrics"', {}],
  ])("refuses in the words of kube-apiserver: %j", (target, verb, message, details) => {
    const { status } = forbidden(user("x"), verb, target);
    expect(status).toMatchObject({ code: 403, reason: "Forbidden", message, details });
  });
});

describe("the default roles", () => {
  const options = { now: () => Date.UTC(2026, 0, 1), newId };

  test("grant discovery and self reviews to authenticated users, the rules of admin, edit and view, and nothing else", async () => {
    await ensureDefaultRoles(store, options);
    const jane = user("jane", "system:authenticated");
    const anonymous = user("system:anonymous", "system:unauthenticated");
    const open = ["/api", "/apis/apps/v1", "/openapi/v3/api/v1", "/version", "/readyz"];
    expect(open.filter((path) => !may(jane, "get", { path }))).toEqual([]);
    expect(may(jane, "get", { path: "/metrics" })).toBe(false);
    expect([may(anonymous, "get", { path: "/version" }), may(anonymous, "get", { path: "/api" })]).toEqual([true, false]);
    expect(may(jane, "create", { group: "authorization.k8s.io", resource: "selfsubjectaccessreviews" })).toBe(true);
    expect(may(jane, "list", pods("a"))).toBe(false);
    for (const name of ["view", "edit", "admin"])
      await put(binding(name, "a", { kind: "ClusterRole", name }, [{ kind: "User", name }]));
    const table = ["view", "edit", "admin"].map((name) => [
      may(user(name), "list", pods("a")),
      may(user(name), "get", pods("a", { subresource: "log" })),
      may(user(name), "get", { group: "", resource: "secrets", namespace: "a" }),
      may(user(name), "patch", { group: "apps", resource: "deployments", subresource: "scale", namespace: "a" }),
      may(user(name), "create", { group: rbacGroup, resource: "rolebindings", namespace: "a" }),
      may(user(name), "list", pods("b")),
    ]);
    expect(table).toEqual([
      [true, true, false, false, false, false],
      [true, true, true, true, false, false],
      [true, true, true, true, true, false],
    ]);
  });

  test("let no namespace role choose the addresses behind a Service", async () => {
    await ensureDefaultRoles(store, options);
    await put(binding("admin", "a", { kind: "ClusterRole", name: "admin" }, [{ kind: "User", name: "admin" }]));
    const admin = user("admin");
    for (const [group, resource] of [
      ["", "endpoints"],
      ["discovery.k8s.io", "endpointslices"],
    ] as const) {
      const verbs = ["get", "list", "watch", "create", "update", "patch", "delete"];
      const allowed = verbs.filter((verb) => may(admin, verb, { group, resource, namespace: "a" }));
      expect(allowed, resource).toEqual(["get", "list", "watch"]);
    }
    const proxied = { group: "", resource: "services", subresource: "proxy", namespace: "a" };
    expect(["get", "create", "update", "patch", "delete"].filter((verb) => !may(admin, verb, proxied))).toEqual([]);
  });

  test("are created once, regain lost rules, and stay unchanged if auto-update is off", async () => {
    await ensureDefaultRoles(store, options);
    const { revision } = store;
    await ensureDefaultRoles(store, options);
    expect(store.revision).toBe(revision);
    const key = storageKey({ group: rbacGroup, plural: "clusterroles" }, "", "system:discovery");
    const original = store.get(key)?.object as KubernetesObject;
    expect(original.metadata).toMatchObject({
      creationTimestamp: "2026-01-01T00:00:00Z",
      labels: { "kubernetes.io/bootstrapping": "rbac-defaults" },
    });
    const extra = { verbs: ["get"], nonResourceURLs: ["/extra"] };
    await put({ ...original, rules: [extra] } as KubernetesObject);
    await ensureDefaultRoles(store, options);
    const jane = user("jane", "system:authenticated");
    expect([may(jane, "get", { path: "/api" }), may(jane, "get", { path: "/extra" })]).toEqual([true, true]);
    const annotations = { "rbac.authorization.kubernetes.io/autoupdate": "false" };
    await put({ ...original, metadata: { ...original.metadata, annotations }, rules: [extra] } as KubernetesObject);
    await ensureDefaultRoles(store, options);
    expect(may(jane, "get", { path: "/api" })).toBe(false);
  });
});

describe("escalation", () => {
  const jane = user("jane");
  const write = (object: KubernetesObject, old?: KubernetesObject) =>
    escalation(authorizer, jane, { plural: plurals[object.kind] ?? "", object, old });
  const grant = async (rules: readonly PolicyRule[]): Promise<void> => {
    await put(role("jane", undefined, rules));
    await put(binding("jane", undefined, { kind: "ClusterRole", name: "jane" }, [{ kind: "User", name: "jane" }]));
  };

  test("by a role is forbidden with the missing permissions, and allowed for permissions the user holds", async () => {
    await grant([readPods]);
    expect(write(role("r", "a", [{ ...readPods, verbs: ["list"] }]))).toBeUndefined();
    const refusal = write(role("r", "a", [{ ...readPods, verbs: ["get", "delete"] }]));
    expect(refusal?.status).toMatchObject({
      code: 403,
      reason: "Forbidden",
      details: { name: "r", kind: "roles", group: rbacGroup },
    });
    expect(refusal?.message).toBe(
      'roles.rbac.authorization.k8s.io "r" is forbidden: user "jane" (groups=[]) is attempting to grant RBAC permissions not ' +
        'currently held:\n{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}',
    );
    expect(
      escalation(authorizer, user("root", "system:masters"), { plural: "roles", object: role("r", "a", [readPods]) }),
    ).toBeUndefined();
  });

  test("does not apply to updates that do not change rules", async () => {
    const before = role("r", "a", [{ verbs: ["*"], apiGroups: ["*"], resources: ["*"] }]);
    const after = { ...before, metadata: { ...before.metadata, labels: { x: "y" } } };
    expect(write(after, before)).toBeUndefined();
    expect(write(after)).toBeDefined();
  });

  test("is allowed by the verb escalate on the role, in its namespace", async () => {
    await grant([{ verbs: ["escalate"], apiGroups: [rbacGroup], resources: ["roles"], resourceNames: ["r"] }]);
    expect(write(role("r", "a", [readPods]))).toBeUndefined();
    expect(write(role("other", "a", [readPods]))).toBeDefined();
    expect(write(role("r", undefined, [readPods]))).toBeDefined();
  });

  test("by aggregation requires all permissions, regardless of the rules of the role", async () => {
    await grant([readPods]);
    const aggregating = role("r", undefined, [], { aggregationRule: { clusterRoleSelectors: [{ matchLabels: { a: "b" } }] } });
    expect(write(aggregating)?.message).toContain("cluster-admin");
  });

  test("by a binding requires the permissions of the role, including aggregated ones, or the verb bind", async () => {
    await put({
      ...role("power", undefined, [{ ...readPods, verbs: ["*"] }]),
      metadata: { name: "power", labels: { agg: "y" } },
    });
    await put(role("sum", undefined, [], { aggregationRule: { clusterRoleSelectors: [{ matchLabels: { agg: "y" } }] } }));
    await put(role("weak", "a", [readPods]));
    await grant([readPods]);
    const bind = (kind: string, name: string, namespace?: string) =>
      binding("b", namespace, { kind, name }, [{ kind: "User", name: "jane" }]);
    expect(write(bind("Role", "weak", "a"))).toBeUndefined();
    expect(write(bind("ClusterRole", "power", "a"))?.status.code).toBe(403);
    expect(write(bind("ClusterRole", "sum"))?.status.code).toBe(403);
    expect(write(bind("Role", "none", "a"))?.status.code).toBe(404);
    expect(write(bind("Role", "weak"))?.status.code).toBe(403);
    expect(write(bind("ClusterRole", "power", "a"), bind("ClusterRole", "power", "a"))).toBeUndefined();
    await grant([readPods, { verbs: ["bind"], apiGroups: [rbacGroup], resources: ["clusterroles"], resourceNames: ["power"] }]);
    expect(write(bind("ClusterRole", "power", "a"))).toBeUndefined();
    expect(write(bind("ClusterRole", "sum", "a"))?.status.code).toBe(403);
  });

  test("is decided by the permissions in the namespace of the binding", async () => {
    await put(role("weak", "a", [readPods]));
    await put(role("weak", "b", [readPods]));
    await put(binding("jane", "a", { kind: "Role", name: "weak" }, [{ kind: "User", name: "jane" }]));
    const bind = (namespace: string) =>
      binding("x", namespace, { kind: "Role", name: "weak" }, [{ kind: "User", name: "bob" }]);
    expect(write(bind("a"))).toBeUndefined();
    expect(write(bind("b"))?.status.code).toBe(403);
  });

  test("does not apply to other kinds", () => {
    expect(escalation(authorizer, jane, { plural: "configmaps", object: role("x", "a", [readPods]) })).toBeUndefined();
  });
});
