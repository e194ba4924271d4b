import { afterAll, beforeAll, expect, test } from "vitest";
import type { UserInfo } from "../../registry/served-resource.ts";
import { startTestEnvironment, type TestEnvironment } from "../../testing/test-environment.ts";

const node: UserInfo = { username: "system:node:one", groups: ["system:nodes", "system:authenticated"] };
/** A node without roles. */
const plain: UserInfo = { ...node, username: "system:node:three" };
const admin: UserInfo = { username: "admin", groups: ["system:masters"] };
let environment: TestEnvironment;
const uids = new Map<string, string>();

/** Makes a request; answers what it says: the code of a refusal, 200 for anything else. */
async function ask(
  user: UserInfo,
  method: "GET" | "POST" | "PATCH" | "DELETE",
  path: string,
  body?: object,
  query: Record<string, string> = {},
): Promise<number> {
  const headers: Record<string, string> = method === "PATCH" ? { "content-type": "application/merge-patch+json" } : {};
  const outcome = await environment.handle({
    method,
    path,
    user,
    headers,
    query,
    ...(body !== undefined && { body: body }),
  });
  return outcome.kind === "status" && outcome.status.status === "Failure" ? (outcome.status.code ?? 0) : 200;
}

const pod = (name: string, nodeName: string, spec: object): object => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name },
  spec: { nodeName, containers: [{ name: "main", image: "none" }], ...spec },
});
const all = "/api/v1/namespaces/default";

beforeAll(async () => {
  environment = await startTestEnvironment();
  const rule = (apiGroups: string[], resources: string[], verbs: string[]): object => ({ apiGroups, resources, verbs });
  const rbac = "/apis/rbac.authorization.k8s.io/v1";
  const apiVersion = "rbac.authorization.k8s.io/v1";
  await ask(admin, "POST", `${rbac}/clusterroles`, {
    apiVersion,
    kind: "ClusterRole",
    metadata: { name: "node" },
    rules: [rule([""], ["nodes", "nodes/status"], ["*"]), rule(["coordination.k8s.io"], ["leases"], ["*"])],
  });
  await ask(admin, "POST", `${rbac}/clusterrolebindings`, {
    apiVersion,
    kind: "ClusterRoleBinding",
    metadata: { name: "node" },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "node" },
    subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name: node.username }],
  });
  const make = async (plural: string, name: string, more: object = {}): Promise<void> => {
    const kinds: Record<string, string> = { secrets: "Secret", configmaps: "ConfigMap", serviceaccounts: "ServiceAccount" };
    const kind = kinds[plural] ?? "";
    expect(await ask(admin, "POST", `${all}/${plural}`, { apiVersion: "v1", kind, metadata: { name }, ...more })).toBe(200);
  };
  for (const name of ["mine", "other", "unused"]) {
    await make("secrets", name);
    await make("configmaps", name);
    await make("serviceaccounts", name);
    await ask(admin, "POST", `${all}/persistentvolumeclaims`, {
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata: { name },
      spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Mi" } } },
    });
    await ask(admin, "POST", "/api/v1/persistentvolumes", {
      apiVersion: "v1",
      kind: "PersistentVolume",
      metadata: { name: `volume-${name}` },
      spec: {
        accessModes: ["ReadWriteOnce"],
        capacity: { storage: "1Mi" },
        hostPath: { path: "/tmp" },
        claimRef: { namespace: "default", name },
      },
    });
  }
  for (const [name, nodeName, names] of [
    ["here", "one", "mine"],
    ["there", "two", "other"],
  ] as const) {
    const spec = {
      serviceAccountName: names,
      volumes: [
        { name: "a", secret: { secretName: names } },
        { name: "b", configMap: { name: names } },
        { name: "c", persistentVolumeClaim: { claimName: names } },
      ],
    };
    expect(await ask(admin, "POST", `${all}/pods`, pod(name, nodeName, spec))).toBe(200);
    uids.set(name, environment.store.get(`/pods/default/${name}`)?.object.metadata.uid ?? "");
  }
});
afterAll(() => environment.stop());

test.each(["secrets/mine", "configmaps/mine", "persistentvolumeclaims/mine", "serviceaccounts/mine"])(
  "a node reads %s, which a Pod of it names",
  async (path) => {
    expect(await ask(node, "GET", `${all}/${path}`)).toBe(200);
  },
);

test.each([
  "secrets/other",
  "configmaps/other",
  "persistentvolumeclaims/other",
  "serviceaccounts/other",
  "secrets/unused",
  "configmaps/unused",
  "secrets",
  "configmaps",
])("a node does not read %s", async (path) => {
  expect(await ask(node, "GET", `${all}/${path}`)).toBe(403);
});

test("a node watches a single Secret by name, not all Secrets", async () => {
  expect(await ask(node, "GET", `${all}/secrets`, undefined, { fieldSelector: "metadata.name=mine" })).toBe(200);
  expect(await ask(node, "GET", `${all}/secrets`, undefined, { fieldSelector: "metadata.name=other" })).toBe(403);
});

test("a node reads the volumes bound to the claims of its Pods", async () => {
  expect(await ask(node, "GET", "/api/v1/persistentvolumes/volume-mine")).toBe(200);
  expect(await ask(node, "GET", "/api/v1/persistentvolumes/volume-other")).toBe(403);
});

test("a node lists and watches only the Pods bound to it, and reads only its own Node", async () => {
  const query = { fieldSelector: "spec.nodeName=three" };
  expect(await ask(plain, "GET", "/api/v1/pods", undefined, query)).toBe(200);
  expect(await ask(plain, "GET", "/api/v1/pods", undefined, { ...query, watch: "1" })).toBe(200);
  expect(await ask(plain, "GET", "/api/v1/pods", undefined, { fieldSelector: "spec.nodeName=one" })).toBe(403);
  expect(await ask(plain, "GET", "/api/v1/pods")).toBe(403);
  expect(await ask(plain, "GET", "/api/v1/nodes", undefined, { fieldSelector: "metadata.name=three" })).toBe(200);
  expect(await ask(plain, "GET", "/api/v1/nodes")).toBe(403);
});

test("a node manages its own Lease without any role", async () => {
  const leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
  const lease = (name: string): object => ({ apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata: { name } });
  expect(await ask(admin, "POST", leases, lease("three"))).toBe(200);
  for (const [method, path, body] of [
    ["GET", `${leases}/three`, undefined],
    ["PATCH", `${leases}/three`, { spec: { holderIdentity: "three" } }],
    ["DELETE", `${leases}/three`, undefined],
    ["POST", leases, lease("three")],
  ] as const) {
    expect(await ask(plain, method, path, body)).toBe(200);
  }
  expect(await ask(plain, "GET", `${leases}/one`)).toBe(403);
  expect(await ask(plain, "GET", leases)).toBe(403);
  expect(await ask(plain, "GET", leases.replace("kube-node-lease", "default"))).toBe(403);
});

test("only a named user in the group system:nodes is a node", async () => {
  const stranger = { ...node, groups: ["system:authenticated"] };
  expect(await ask(stranger, "GET", `${all}/secrets/mine`)).toBe(403);
  expect(await ask({ ...node, username: "system:node:" }, "GET", `${all}/secrets/mine`)).toBe(403);
  expect(await ask({ ...node, username: "system:node:two" }, "GET", `${all}/secrets/mine`)).toBe(403);
});

test("a node updates only the status of its own Pods, and deletes only them", async () => {
  const status = { status: { message: "seen" } };
  expect(await ask(node, "PATCH", `${all}/pods/here/status`, status)).toBe(200);
  expect(await ask(node, "PATCH", `${all}/pods/there/status`, status)).toBe(403);
  expect(await ask(node, "PATCH", `${all}/pods/here`, { metadata: { labels: { a: "b" } } })).toBe(403);
  expect(await ask(node, "POST", `${all}/pods`, pod("new", "one", {}))).toBe(403);
  expect(await ask(node, "PATCH", `${all}/secrets/mine`, { data: {} })).toBe(403);
  expect(await ask(node, "DELETE", `${all}/pods/there`)).toBe(403);
});

test("a node gets tokens for the service accounts of its Pods, bound to the Pod", async () => {
  const token = (account: string, bound?: object): Promise<number> =>
    ask(node, "POST", `${all}/serviceaccounts/${account}/token`, {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      spec: { audiences: [], ...(bound && { boundObjectRef: { apiVersion: "v1", kind: "Pod", ...bound } }) },
    });
  const here = { name: "here", uid: uids.get("here") ?? "" };
  expect(await token("mine", here)).toBe(200);
  expect(await token("mine")).toBe(403);
  expect(await token("mine", { ...here, uid: "another" })).toBe(403);
  expect(await token("mine", { name: "there", uid: uids.get("there") ?? "" })).toBe(403);
  expect(await token("other", { name: "there", uid: uids.get("there") ?? "" })).toBe(403);
});

test("a node manages its own Node and Lease regardless of its roles, without restricted labels", async () => {
  const made = (name: string): object => ({ apiVersion: "v1", kind: "Node", metadata: { name } });
  expect(await ask(node, "POST", "/api/v1/nodes", made("one"))).toBe(200);
  expect(await ask(node, "POST", "/api/v1/nodes", made("two"))).toBe(403);
  expect(await ask(node, "PATCH", "/api/v1/nodes/one", { metadata: { labels: { a: "b" } } })).toBe(200);
  const label = { metadata: { labels: { "node-restriction.kubernetes.io/zone": "safe" } } };
  expect(await ask(node, "PATCH", "/api/v1/nodes/one", label)).toBe(403);
  expect(await ask(admin, "POST", "/api/v1/nodes", made("two"))).toBe(200);
  expect(await ask(node, "PATCH", "/api/v1/nodes/two/status", { status: {} })).toBe(403);
  const leases = (namespace: string): string => `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
  const lease = (name: string): object => ({ apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata: { name } });
  expect(await ask(node, "POST", leases("kube-node-lease"), lease("one"))).toBe(200);
  expect(await ask(node, "POST", leases("kube-node-lease"), lease("two"))).toBe(403);
  expect(await ask(node, "POST", leases("default"), lease("one"))).toBe(403);
});

test("a node cannot set role labels, restricted labels or other kubernetes.io labels on itself, nor change its taints", async () => {
  const url = "/api/v1/nodes/one";
  const labelled = (labels: object): object => ({ apiVersion: "v1", kind: "Node", metadata: { name: "one", labels } });
  const taints = [{ key: "dedicated", value: "safe", effect: "NoSchedule" }];
  await ask(admin, "DELETE", url);
  expect(await ask(node, "POST", "/api/v1/nodes", labelled({ "node-role.kubernetes.io/control-plane": "" }))).toBe(403);
  expect(await ask(node, "POST", "/api/v1/nodes", labelled({ "kubernetes.io/hostname": "one", own: "yes" }))).toBe(200);
  expect(await ask(admin, "PATCH", url, { spec: { taints } })).toBe(200);
  for (const key of ["node-role.kubernetes.io/worker", "a.node-restriction.kubernetes.io/b", "example.k8s.io/c"]) {
    expect(await ask(node, "PATCH", url, { metadata: { labels: { [key]: "x" } } })).toBe(403);
  }
  for (const key of ["topology.kubernetes.io/zone", "node.kubernetes.io/disk", "example.com/c"]) {
    expect(await ask(node, "PATCH", url, { metadata: { labels: { [key]: "x" } } })).toBe(200);
  }
  for (const changed of [null, [], [...taints, { key: "b", effect: "NoExecute" }]]) {
    expect(await ask(node, "PATCH", url, { spec: { taints: changed } })).toBe(403);
  }
});

test("a node loses access to references of a deleted Pod unless another Pod has them", async () => {
  const spec = { volumes: [{ name: "a", secret: { secretName: "unused" } }] };
  expect(await ask(admin, "POST", `${all}/pods`, pod("first", "one", spec))).toBe(200);
  expect(await ask(admin, "POST", `${all}/pods`, pod("second", "one", spec))).toBe(200);
  expect(await ask(node, "GET", `${all}/secrets/unused`)).toBe(200);
  const at = { gracePeriodSeconds: "0" };
  expect(await ask(node, "DELETE", `${all}/pods/first`, undefined, at)).toBe(200);
  expect(await ask(node, "GET", `${all}/secrets/unused`)).toBe(200);
  expect(await ask(node, "DELETE", `${all}/pods/second`, undefined, at)).toBe(200);
  expect(await ask(node, "GET", `${all}/secrets/unused`)).toBe(403);
});

test("a Pod bound later grants access from then on", async () => {
  const spec = { nodeName: undefined, volumes: [{ name: "a", configMap: { name: "unused" } }] };
  const later: unknown = JSON.parse(JSON.stringify(pod("later", "", spec)));
  expect(await ask(admin, "POST", `${all}/pods`, later as object)).toBe(200);
  expect(await ask(node, "GET", `${all}/configmaps/unused`)).toBe(403);
  const binding = { apiVersion: "v1", kind: "Binding", metadata: { name: "later" }, target: { kind: "Node", name: "one" } };
  expect(await ask(admin, "POST", `${all}/pods/later/binding`, binding)).toBe(200);
  expect(await ask(node, "GET", `${all}/configmaps/unused`)).toBe(200);
});
