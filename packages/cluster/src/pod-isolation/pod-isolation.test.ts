import {
  ClusterRole,
  ClusterRoleBinding,
  CronJob,
  type CronJobObject,
  CustomResourceDefinition,
  Deployment,
  type DeploymentObject,
  Job,
  Pod,
  ReplicaSet,
  RoleBinding,
  RuntimeClass,
  StatefulSet,
} from "@keelson/api-machinery/kinds";
import type { ResourceType } from "@keelson/api-machinery";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { isolationSources } from "./api-access.ts";
import { isolationAnnotation, podIsolation } from "./pod-isolation.ts";

const namespace = "default";
const controllers = { username: "system:kube-controller-manager", groups: ["system:authenticated"] };
const operator = {
  username: "system:serviceaccount:keelson-system:sample",
  groups: ["system:serviceaccounts", "system:serviceaccounts:keelson-system", "system:authenticated"],
};
const tenant = { username: "tenant", groups: ["system:authenticated"] };
const template = (command = "true") => ({
  metadata: { labels: { app: "a" } },
  spec: { containers: [{ name: "c", image: "i", command: [command] }] },
});
const selector = { matchLabels: { app: "a" } };
const widget: ResourceType = {
  group: "example.com",
  version: "v1",
  kind: "Widget",
  plural: "widgets",
  scope: "Namespaced",
};

let handlers: string[];
let environment: TestEnvironment;
let admin: Client;

beforeEach(async () => {
  handlers = ["process", "bubblewrap"];
  let sources: ReturnType<typeof isolationSources> | undefined;
  const ready = (): ReturnType<typeof isolationSources> => {
    if (sources === undefined) throw new TypeError("not started");
    return sources;
  };
  environment = await startTestEnvironment({
    admission: [
      podIsolation({
        mayUse: (...args) => ready().mayUse(...args),
        handlerOf: (name) => ready().handlerOf(name),
        ownerOf: (...args) => ready().ownerOf(...args),
        handlers: () => handlers,
      }),
    ],
  });
  admin = as();
  sources = isolationSources(environment.server, admin);
  for (const name of ["process", "bubblewrap"]) await admin.create(RuntimeClass, { metadata: { name }, handler: name });
  const subjects = [{ apiGroup: ClusterRole.group, kind: "User" as const, name: tenant.username }];
  await admin.create(RoleBinding, {
    metadata: { namespace, name: "tenant" },
    roleRef: { apiGroup: ClusterRole.group, kind: "ClusterRole", name: "admin" },
    subjects,
  });
  const everything = [
    { apiGroups: ["*"], resources: ["*"], verbs: ["get", "list", "watch", "create", "update", "patch", "delete"] },
  ];
  await admin.create(ClusterRole, { metadata: { name: "controllers" }, rules: everything });
  await admin.create(ClusterRoleBinding, {
    metadata: { name: "controllers" },
    roleRef: { apiGroup: ClusterRole.group, kind: "ClusterRole", name: "controllers" },
    subjects: [controllers, operator].map(({ username }) => ({ ...subjects[0], kind: "User" as const, name: username })),
  });
});
afterEach(() => environment.stop());

const as = (user?: { username: string; groups: string[] }): Client =>
  createClient({ transport: environment.transport(user), fieldManager: user?.username.replaceAll(":", "-") ?? "admin" });
const ownedBy = (type: ResourceType, { metadata }: { metadata: { name?: string; uid?: string } }) => [
  {
    apiVersion: type.group === "" ? type.version : `${type.group}/${type.version}`,
    kind: type.kind,
    name: metadata.name ?? "",
    uid: metadata.uid ?? "",
    controller: true,
  },
];
const createPod = (client: Client, name: string, spec: object = {}, metadata: object = {}) =>
  client.create(Pod, { metadata: { namespace, name, ...metadata }, spec: { ...template().spec, ...spec } });
const deployment = (client: Client, name = "d"): Promise<DeploymentObject> =>
  client.create(Deployment, {
    metadata: { namespace, name },
    spec: { replicas: 1, selector, template: template() },
  }) as Promise<DeploymentObject>;

describe("a Pod of a namespace's admin", () => {
  test("runs isolated, whatever the node's default", async () => {
    expect((await createPod(as(tenant), "a")).spec.runtimeClassName).toBe("bubblewrap");
    handlers = ["bubblewrap", "process"];
    expect((await createPod(as(tenant), "b")).spec.runtimeClassName).toBe("bubblewrap");
  });

  test("is rejected if it asks for a process, directly or by a class of another name", async () => {
    await admin.create(RuntimeClass, { metadata: { name: "bare" }, handler: "process" });
    for (const runtimeClassName of ["process", "bare"]) {
      await expect(createPod(as(tenant), "a", { runtimeClassName })).rejects.toThrow(
        `pods "a" is forbidden: user "tenant": running as a process of the node requires verb "use" on runtimeclasses.node.k8s.io ` +
          `"${runtimeClassName}"; set spec.runtimeClassName to bubblewrap`,
      );
    }
    await expect(createPod(as(tenant), "a", { runtimeClassName: "later" })).rejects.toThrow('RuntimeClass "later" not found');
  });

  test("is rejected on a node without an isolated runtime", async () => {
    handlers = ["process"];
    await expect(createPod(as(tenant), "a")).rejects.toThrow("this node has no isolated runtime");
  });

  test("must not mount paths of the machine", async () => {
    const volumes = [{ name: "v", hostPath: { path: "/" } }];
    await expect(createPod(as(tenant), "a", { volumes })).rejects.toThrow("hostPath volumes require");
    await expect(createPod(as(tenant), "a", { volumes, runtimeClassName: "bubblewrap" })).rejects.toThrow("hostPath volumes");
    expect((await createPod(admin, "a", { volumes })).spec.runtimeClassName).toBeUndefined();
  });

  test("may run as a process with verb use on the class", async () => {
    const rules = [{ apiGroups: ["node.k8s.io"], resources: ["runtimeclasses"], resourceNames: ["process"], verbs: ["use"] }];
    await admin.create(ClusterRole, { metadata: { name: "process" }, rules });
    await admin.create(ClusterRoleBinding, {
      metadata: { name: "process" },
      roleRef: { apiGroup: ClusterRole.group, kind: "ClusterRole", name: "process" },
      subjects: [{ apiGroup: ClusterRole.group, kind: "User", name: tenant.username }],
    });
    expect((await createPod(as(tenant), "a")).spec.runtimeClassName).toBeUndefined();
  });
});

describe("an ephemeral container", () => {
  const debug = (client: Client, name: string, type: "strategic" | "merge" = "strategic", rest: object = {}) =>
    client.patch(
      Pod,
      { namespace, name },
      { type, body: { spec: { ephemeralContainers: [{ name: "d", image: "i", command: ["true"] }], ...rest } } },
      { subresource: "ephemeralcontainers" },
    );

  test("of a namespace's admin is rejected in a process and alongside host paths, allowed in an isolated Pod", async () => {
    await createPod(admin, "process");
    await createPod(admin, "host", { runtimeClassName: "bubblewrap", volumes: [{ name: "v", hostPath: { path: "/" } }] });
    await createPod(as(tenant), "isolated");
    const rules = [{ apiGroups: [""], resources: ["pods/ephemeralcontainers"], verbs: ["patch"] }];
    await admin.create(ClusterRole, { metadata: { name: "debug" }, rules });
    await admin.create(ClusterRoleBinding, {
      metadata: { name: "debug" },
      roleRef: { apiGroup: ClusterRole.group, kind: "ClusterRole", name: "debug" },
      subjects: [{ apiGroup: ClusterRole.group, kind: "User", name: tenant.username }],
    });
    for (const name of ["process", "host"]) await expect(debug(as(tenant), name)).rejects.toThrow('require verb "use"');
    // The request cannot make the Pod look isolated.
    const disguise = { runtimeClassName: "bubblewrap", volumes: [] };
    for (const name of ["process", "host"]) {
      await expect(debug(as(tenant), name, "merge", disguise)).rejects.toThrow('require verb "use"');
    }
    expect((await debug(as(tenant), "isolated")).spec.ephemeralContainers).toHaveLength(1);
    expect((await debug(admin, "process")).spec.ephemeralContainers).toHaveLength(1);
  });
});

describe("a Pod that a controller creates", () => {
  const podOf = async (type: ResourceType, owner: { metadata: object }, name: string, labels: object = {}) =>
    (await createPod(as(controllers), name, {}, { labels, ownerReferences: ownedBy(type, owner) })).spec.runtimeClassName;
  const replicaSetOf = (owner: DeploymentObject, name = "rs") =>
    as(controllers).create(ReplicaSet, {
      metadata: { namespace, name, ownerReferences: ownedBy(Deployment, owner) },
      spec: { replicas: 1, selector, template: template() },
    });

  test("runs as a process for a Deployment of a cluster admin, isolated for one of a namespace's admin", async () => {
    expect(await podOf(ReplicaSet, await replicaSetOf(await deployment(admin)), "a")).toBeUndefined();
    const replicaSet = await replicaSetOf(await deployment(as(tenant), "t"), "t");
    expect(await podOf(ReplicaSet, replicaSet, "b")).toBe("bubblewrap");
  });

  test.each([
    ["Job", Job, { template: { spec: { ...template().spec, restartPolicy: "Never" } } }],
    ["StatefulSet", StatefulSet, { serviceName: "s", selector, template: template() }],
    ["ReplicaSet", ReplicaSet, { selector, template: template() }],
  ] as const)("is isolated for a %s of a namespace's admin", async (_kind, type: ResourceType, spec) => {
    const owner = await as(tenant).create(type, { metadata: { namespace, name: "w" }, spec } as never);
    expect(await podOf(type, owner, "w-0")).toBe("bubblewrap");
  });

  test("is isolated for a CronJob of a namespace's admin, whatever its Job template says", async () => {
    const jobTemplate = {
      metadata: { annotations: { [isolationAnnotation]: "none" } },
      spec: { template: { spec: { ...template().spec, restartPolicy: "Never" } } },
    };
    const spec = { schedule: "* * * * *", jobTemplate } as CronJobObject["spec"];
    const cronJob = await as(tenant).create(CronJob, { metadata: { namespace, name: "c" }, spec });
    const job = await as(controllers).create(Job, {
      metadata: { ...jobTemplate.metadata, namespace, name: "c-1", ownerReferences: ownedBy(CronJob, cronJob) },
      spec: jobTemplate.spec as never,
    });
    expect(await podOf(Job, job, "c-1-a")).toBe("bubblewrap");
  });

  test("is isolated once a namespace's admin has changed the template, even if the owner reverts it", async () => {
    const original = await deployment(admin);
    const key = { namespace, name: "d" };
    await as(tenant).patch(Deployment, key, { type: "merge", body: { spec: { replicas: 3 } } });
    expect((await admin.get(Deployment, key)).metadata.annotations?.[isolationAnnotation]).toBeUndefined();
    await as(tenant).patch(Deployment, key, { type: "merge", body: { spec: { template: template("id") } } });
    await admin.patch(Deployment, key, { type: "merge", body: { spec: { template: template() } } });
    expect(await podOf(ReplicaSet, await replicaSetOf(original), "a")).toBe("bubblewrap");
  });

  test("cannot be freed by removing the annotation", async () => {
    await deployment(as(tenant));
    const body = { metadata: { annotations: { [isolationAnnotation]: null } } };
    for (const client of [as(tenant), as(controllers), admin]) {
      await client.patch(Deployment, { namespace, name: "d" }, { type: "merge", body });
      const { annotations } = (await admin.get(Deployment, { namespace, name: "d" })).metadata;
      expect(annotations?.[isolationAnnotation]).toBe("required");
    }
  });

  test("is isolated if its owner does not exist, was replaced, or is missing", async () => {
    const owner = { metadata: { name: "gone", uid: "1" } };
    expect(await podOf(ReplicaSet, owner, "a")).toBe("bubblewrap");
    const replicaSet = await replicaSetOf(await deployment(admin));
    expect(await podOf(ReplicaSet, { metadata: { ...replicaSet.metadata, uid: "other" } }, "b")).toBe("bubblewrap");
    expect((await createPod(as(controllers), "c")).spec.runtimeClassName).toBe("bubblewrap");
  });

  test("is isolated if it comes from a revision of a namespace's admin", async () => {
    const spec = { serviceName: "s", selector, template: template() };
    const set = await admin.create(StatefulSet, { metadata: { namespace, name: "w" }, spec });
    const revisions: ResourceType = {
      group: "apps",
      version: "v1",
      kind: "ControllerRevision",
      plural: "controllerrevisions",
      scope: "Namespaced",
    };
    const create = (client: Client, name: string) =>
      client.create(revisions, {
        metadata: { namespace, name, ownerReferences: ownedBy(StatefulSet, set) },
        data: { spec: { template: template("id") } },
        revision: 1,
      } as never);
    await create(as(controllers), "w-1");
    await environment.transport().request({
      method: "POST",
      path: "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
      body: {
        metadata: { name: "revisions" },
        rules: [{ apiGroups: ["apps"], resources: ["controllerrevisions"], verbs: ["create"] }],
      },
    });
    await admin.create(RoleBinding, {
      metadata: { namespace, name: "revisions" },
      roleRef: { apiGroup: ClusterRole.group, kind: "Role", name: "revisions" },
      subjects: [{ apiGroup: ClusterRole.group, kind: "User", name: tenant.username }],
    });
    await create(as(tenant), "w-2");
    expect(await podOf(StatefulSet, set, "w-0", { "controller-revision-hash": "w-1" })).toBeUndefined();
    expect(await podOf(StatefulSet, set, "w-1", { "controller-revision-hash": "w-2" })).toBe("bubblewrap");
  });
});

describe("a Pod that an operator creates", () => {
  beforeEach(async () => {
    await environment.install([
      {
        apiVersion: "apiextensions.k8s.io/v1",
        kind: CustomResourceDefinition.kind,
        metadata: { name: "widgets.example.com" },
        spec: {
          group: "example.com",
          scope: "Namespaced",
          names: { plural: "widgets", singular: "widget", kind: "Widget", listKind: "WidgetList" },
          versions: [
            {
              name: "v1",
              served: true,
              storage: true,
              schema: { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } },
            },
          ],
        },
      } as never,
    ]);
    const rules = [{ apiGroups: ["example.com"], resources: ["widgets"], verbs: ["create", "update", "patch"] }];
    await admin.create(ClusterRole, { metadata: { name: "widgets" }, rules });
    await admin.create(ClusterRoleBinding, {
      metadata: { name: "widgets" },
      roleRef: { apiGroup: ClusterRole.group, kind: "ClusterRole", name: "widgets" },
      subjects: [{ apiGroup: ClusterRole.group, kind: "User", name: tenant.username }],
    });
  });

  test("runs as a process for a custom resource of a cluster admin, isolated for one of a namespace's admin", async () => {
    for (const [client, name, expected] of [
      [admin, "a", undefined],
      [as(tenant), "t", "bubblewrap"],
    ] as const) {
      const owner = await client.create(widget, { metadata: { namespace, name }, spec: { command: "true" } } as never);
      const created = await createPod(as(operator), name, {}, { ownerReferences: ownedBy(widget, owner) });
      expect(created.spec.runtimeClassName).toBe(expected);
    }
  });

  test("stays isolated after an operator changed a Deployment that it does not own", async () => {
    await deployment(admin);
    const body = { spec: { template: template("id") } };
    await as(operator).patch(Deployment, { namespace, name: "d" }, { type: "merge", body });
    const { annotations } = (await admin.get(Deployment, { namespace, name: "d" })).metadata;
    expect(annotations?.[isolationAnnotation]).toBe("required");
  });
});
