import { draft, type KubernetesObject } from "@keelson/api-machinery";
import { describe, expect, it } from "vitest";
import { builtinKinds } from "../builtin-kinds.ts";
import { mapAt, textAt, valueAt } from "../object-fields.ts";
import type { ServedResource } from "../served-resource.ts";
import { noReviews } from "../testing/crd-samples.ts";
import { collectCauses } from "../causes.ts";

const now = Date.parse("2026-01-01T00:10:00Z");
const kinds = builtinKinds({ clock: { now: () => now }, reviews: noReviews });

function kindOf(group: string, plural: string): ServedResource {
  const found = kinds.find((kind) => kind.group === group && kind.plural === plural);
  if (found === undefined) throw new Error(`${group}/${plural} is not served`);
  return found;
}

function object(
  kind: string,
  fields: Record<string, unknown> = {},
  metadata: KubernetesObject["metadata"] = {},
): KubernetesObject {
  return {
    apiVersion: "v1",
    kind,
    metadata: { name: "a", namespace: "default", creationTimestamp: "2026-01-01T00:00:00Z", ...metadata },
    ...fields,
  };
}

/** What create makes of an object: prepared, and `<reason> <field>` of what is wrong with it. */
function create(
  kind: ServedResource,
  sent: KubernetesObject,
): { readonly made: KubernetesObject; readonly causes: readonly string[] } {
  const made = draft(sent);
  kind.strategy.default?.(made);
  kind.strategy.prepareForCreate?.(made);
  return { made, causes: collectCauses(kind.strategy.validate?.(made) ?? []).map(({ reason, field }) => `${reason} ${field}`) };
}

function update(kind: ServedResource, old: KubernetesObject, sent: KubernetesObject) {
  const made = draft(sent);
  kind.strategy.default?.(made);
  kind.strategy.prepareForUpdate?.(made, old);
  const causes = [kind.strategy.validate?.(made), kind.strategy.validateUpdate?.(made, old)].flatMap((found) =>
    collectCauses(found ?? []),
  );
  return { made, causes: causes.map(({ reason, field }) => `${reason} ${field}`) };
}

describe("columns", () => {
  it.each([
    ["apps", "replicasets", "integer", ["Desired", "Current", "Ready"]],
    ["", "replicationcontrollers", "integer", ["Desired", "Current", "Ready"]],
    ["apps", "daemonsets", "integer", ["Desired", "Current", "Ready", "Up-to-date", "Available"]],
    ["apps", "deployments", "integer", []],
    ["batch", "cronjobs", "integer", ["Active"]],
    ["batch", "cronjobs", "boolean", ["Suspend"]],
    ["policy", "poddisruptionbudgets", "integer", ["Allowed Disruptions"]],
    ["scheduling.k8s.io", "priorityclasses", "integer", ["Value"]],
    ["scheduling.k8s.io", "priorityclasses", "boolean", ["Global-Default"]],
  ])("of %s/%s that are of type %s: %j", (group, plural, wanted, names) => {
    const { columns } = kindOf(group, plural);
    expect(columns.filter(({ type }) => type === wanted).map(({ name }) => name)).toEqual(names);
  });
});

describe("RuntimeClasses", () => {
  const classes = kindOf("node.k8s.io", "runtimeclasses");

  it.each([
    ["containerd", []],
    ["my-runtime", []],
    ["", ["FieldValueInvalid handler"]],
    ["Run C", ["FieldValueInvalid handler"]],
    ["x".repeat(64), ["FieldValueInvalid handler"]],
  ])("have a DNS label as their handler: %j", (handler, causes) => {
    expect(create(classes, object("RuntimeClass", { handler })).causes).toEqual(causes);
  });

  it("keep their handler", () => {
    const old = object("RuntimeClass", { handler: "process" });
    expect(update(classes, old, object("RuntimeClass", { handler: "other" })).causes).toEqual(["FieldValueInvalid handler"]);
    expect(update(classes, old, object("RuntimeClass", { handler: "process" })).causes).toEqual([]);
  });
});

describe("Pods", () => {
  it("lose the fields of features that are off in Kubernetes 1.35", () => {
    const spec = { containers: [{ name: "c", image: "i" }], workloadRef: { name: "w", podGroup: "g" } };
    const template = object("Deployment", { spec: { selector: {}, template: { spec } } });
    expect(valueAt(create(kindOf("", "pods"), object("Pod", { spec })).made, "spec")).not.toHaveProperty("workloadRef");
    const { made } = create(kindOf("apps", "deployments"), template);
    expect(valueAt(made, "spec", "template", "spec")).toHaveProperty("restartPolicy");
    expect(valueAt(made, "spec", "template", "spec")).not.toHaveProperty("workloadRef");
  });
});

describe("ConfigMaps", () => {
  const configMaps = kindOf("", "configmaps");

  it("have unique keys that are valid file names", () => {
    expect(
      create(configMaps, object("ConfigMap", { data: { "some.file_name-1": "x" }, binaryData: { b: "AAEC" } })).causes,
    ).toEqual([]);
    expect(create(configMaps, object("ConfigMap", { data: { "no/slash": "x", "..": "y" } })).causes).toEqual([
      "FieldValueInvalid data[no/slash]",
      "FieldValueInvalid data[..]",
    ]);
    expect(create(configMaps, object("ConfigMap", { data: { k: "x" }, binaryData: { k: "eA==" } })).causes).toEqual([
      "FieldValueInvalid data[k]",
    ]);
  });

  it("reject invalid base64 as a bad request", () => {
    expect(() => create(configMaps, object("ConfigMap", { binaryData: { k: "***" } }))).toThrow(/binaryData\[k\].*base64/);
  });

  it("hold up to one mebibyte", () => {
    const size = 1024 * 1024;
    expect(create(configMaps, object("ConfigMap", { data: { k: "x".repeat(size) } })).causes).toEqual([]);
    expect(create(configMaps, object("ConfigMap", { data: { k: "x".repeat(size + 1) } })).causes).toEqual([
      "FieldValueTooLong ",
    ]);
    expect(create(configMaps, object("ConfigMap", { data: { k: "é".repeat(size / 2 + 1) } })).causes).toEqual([
      "FieldValueTooLong ",
    ]);
  });

  it("cannot change once immutable, except metadata", () => {
    const old = object("ConfigMap", { data: { a: "1" }, immutable: true });
    expect(update(configMaps, old, object("ConfigMap", { data: { a: "2" }, immutable: true })).causes).toEqual([
      "FieldValueForbidden data",
    ]);
    expect(update(configMaps, old, object("ConfigMap", { data: { a: "1" } })).causes).toEqual([
      "FieldValueForbidden immutable",
    ]);
    expect(
      update(configMaps, old, object("ConfigMap", { data: { a: "1" }, immutable: true }, { labels: { x: "y" } })).causes,
    ).toEqual([]);
  });
});

describe("Secrets", () => {
  const secrets = kindOf("", "secrets");

  it("merge stringData into data and default the type", () => {
    const { made } = create(
      secrets,
      object("Secret", { data: { a: "MQ==", b: "Mg==" }, stringData: { b: "two", c: "three" } }),
    );
    expect([mapAt(made, "data"), valueAt(made, "stringData"), valueAt(made, "type")]).toEqual([
      { a: "MQ==", b: "dHdv", c: "dGhyZWU=" },
      undefined,
      "Opaque",
    ]);
  });

  it("are safe from prototype keys", () => {
    const fields = JSON.parse('{"stringData": {"__proto__": "x", "constructor": "y"}}') as Record<string, unknown>;
    const { made } = create(secrets, object("Secret", fields));
    expect(Object.keys(mapAt(made, "data"))).toEqual(["__proto__", "constructor"]);
    expect(Object.getPrototypeOf(mapAt(made, "data"))).toBe(Object.prototype);
    expect(create(secrets, object("Secret", { type: "constructor" })).causes).toEqual([]);
  });

  it("require the keys of their type", () => {
    expect(create(secrets, object("Secret", { data: {}, type: "kubernetes.io/tls" })).causes).toEqual([
      "FieldValueRequired data[tls.crt]",
      "FieldValueRequired data[tls.key]",
    ]);
    expect(
      create(secrets, object("Secret", { stringData: { ".dockerconfigjson": "no" }, type: "kubernetes.io/dockerconfigjson" }))
        .causes,
    ).toEqual(["FieldValueInvalid data[.dockerconfigjson]"]);
    expect(
      create(secrets, object("Secret", { stringData: { username: "u" }, type: "kubernetes.io/basic-auth" })).causes,
    ).toEqual([]);
    expect(create(secrets, object("Secret", { type: "kubernetes.io/service-account-token" })).causes).toEqual([
      "FieldValueRequired metadata.annotations[kubernetes.io/service-account.name]",
    ]);
  });

  it("have an immutable type", () => {
    const old = object("Secret", { type: "Opaque" });
    expect(update(secrets, old, object("Secret", { type: "other/x" })).causes).toEqual(["FieldValueInvalid type"]);
    expect(update(secrets, old, object("Secret")).causes).toEqual([]);
  });

  it("reject invalid base64 and accept line breaks", () => {
    expect(() => create(secrets, object("Secret", { data: { a: "not base64!" } }))).toThrow(/cannot be handled as a Secret/);
    expect(mapAt(create(secrets, object("Secret", { data: { a: "MT\nE=" } })).made, "data")).toEqual({ a: "MTE=" });
  });
});

describe("Namespaces", () => {
  const namespaces = kindOf("", "namespaces");
  const { made } = create(namespaces, object("Namespace", { status: { phase: "Gone" } }, { namespace: "" }));

  it("start Active, with the namespace controller's finalizer and a name label", () => {
    expect([valueAt(made, "status"), valueAt(made, "spec"), made.metadata.labels]).toEqual([
      { phase: "Active" },
      { finalizers: ["kubernetes"] },
      { "kubernetes.io/metadata.name": "a" },
    ]);
  });

  it("have a label with their name even if it is too long, which is then reported as well", () => {
    expect(create(namespaces, object("Namespace", {}, { name: "n".repeat(64) })).made.metadata.labels).toEqual({
      "kubernetes.io/metadata.name": "n".repeat(64),
    });
  });

  it("change finalizers only through finalize, which leaves the status alone", () => {
    const sent = { ...draft(made), spec: { finalizers: [] }, status: { phase: "Terminating" } };
    expect(valueAt(update(namespaces, made, sent).made, "spec", "finalizers")).toEqual(["kubernetes"]);
    const finalized = draft(sent) as KubernetesObject;
    namespaces.subresources?.find(({ name }) => name === "finalize")?.prepareForUpdate?.(finalized, made);
    expect([valueAt(finalized, "spec", "finalizers"), textAt(finalized, "status", "phase")]).toEqual([[], "Active"]);
  });

  it("are Active unless they are being deleted", () => {
    const causesOf = (phase: string, metadata: KubernetesObject["metadata"] = {}): readonly (string | undefined)[] =>
      collectCauses(namespaces.strategy.status?.validate?.(object("Namespace", { status: { phase } }, metadata)) ?? []).map(
        ({ message }) => message,
      );
    expect(causesOf("Active")).toEqual([]);
    expect(causesOf("Terminating")).toEqual([
      `Invalid value: "Terminating": may only be 'Active' if \`deletionTimestamp\` is empty`,
    ]);
    expect(causesOf("Terminating", { deletionTimestamp: "2026-01-01T00:00:00Z" })).toEqual([]);
  });

  it("are Terminating until their finalizers are empty", () => {
    const deleted = draft(made);
    namespaces.strategy.prepareForDelete?.(deleted);
    expect(textAt(deleted, "status", "phase")).toBe("Terminating");
    expect(namespaces.strategy.isHeld?.(deleted)).toBe(true);
    expect(namespaces.strategy.isHeld?.({ ...deleted, spec: { finalizers: [] } } as KubernetesObject)).toBe(false);
  });
});

describe("Events", () => {
  const core = kindOf("", "events");
  const grouped = kindOf("events.k8s.io", "events");
  const event = object("Event", {
    type: "Warning",
    reason: "Broken",
    message: "it broke\n",
    involvedObject: { kind: "Pod", namespace: "default", name: "p", uid: "u", fieldPath: "spec.containers{x}" },
    count: 3,
    firstTimestamp: "2026-01-01T00:00:00Z",
    lastTimestamp: "2026-01-01T00:09:00Z",
    source: { component: "kubelet", host: "n1" },
  });

  it("are served by both groups, whichever stored them", () => {
    const served = grouped.conversion?.fromStorage(create(core, event).made);
    expect(served).toMatchObject({
      apiVersion: "events.k8s.io/v1",
      note: "it broke\n",
      regarding: { kind: "Pod", name: "p" },
      deprecatedCount: 3,
      deprecatedSource: { component: "kubelet" },
      reportingController: "",
    });
    expect(served).not.toHaveProperty("involvedObject");
    expect(served === undefined ? undefined : grouped.conversion?.toStorage(served)).toEqual(create(core, event).made);
  });

  it("are in the namespace of the involved object", () => {
    expect(create(core, event).causes).toEqual([]);
    const elsewhere = { ...event, involvedObject: { kind: "Pod", namespace: "elsewhere" } } as KubernetesObject;
    expect(create(core, elsewhere).causes).toEqual(["FieldValueInvalid involvedObject.namespace"]);
    expect(create(core, { ...event, involvedObject: { kind: "Node", name: "n" } } as KubernetesObject).causes).toEqual([]);
  });

  it("support field selectors with either group's field names", () => {
    expect(core.selectableFields["involvedObject.name"]?.(event)).toBe("p");
    expect(core.selectableFields["source"]?.(event)).toBe("kubelet");
    expect(core.selectableFields["type"]?.(event)).toBe("Warning");
    const served = grouped.conversion?.fromStorage(event);
    expect(served && grouped.selectableFields["regarding.name"]?.(served)).toBe("p");
  });

  it("show when they were last seen", () => {
    expect(core.cells?.(event, now)).toEqual([
      "60s",
      "Warning",
      "Broken",
      "pod/p",
      "spec.containers{x}",
      "kubelet, n1",
      "it broke",
      "10m",
      3,
      "a",
    ]);
    const series = object("Event", {
      eventTime: "2026-01-01T00:00:00.000000Z",
      series: { count: 7, lastObservedTime: "2026-01-01T00:09:55.000000Z" },
      involvedObject: { kind: "Node" },
    });
    expect(core.cells?.(series, now)).toEqual(["5s", "", "", "node", "", "", "", "10m", 7, "a"]);
  });
});

describe("Leases", () => {
  const leases = kindOf("coordination.k8s.io", "leases");
  it("always have a spec and a positive duration", () => {
    const { made, causes } = create(leases, object("Lease"));
    expect([valueAt(made, "spec"), causes]).toEqual([{}, []]);
    expect(create(leases, object("Lease", { spec: { leaseDurationSeconds: 0, leaseTransitions: -1 } })).causes).toEqual([
      "FieldValueInvalid spec.leaseDurationSeconds",
      "FieldValueInvalid spec.leaseTransitions",
    ]);
  });
});

describe("RBAC", () => {
  const bindings = kindOf("rbac.authorization.k8s.io", "rolebindings");
  const clusterBindings = kindOf("rbac.authorization.k8s.io", "clusterrolebindings");
  const roles = kindOf("rbac.authorization.k8s.io", "roles");
  const clusterRoles = kindOf("rbac.authorization.k8s.io", "clusterroles");

  it("has rules for resources or, in ClusterRoles, for URLs", () => {
    const rule = { verbs: ["get"], nonResourceURLs: ["/healthz"] };
    expect(create(clusterRoles, object("ClusterRole", { rules: [rule] })).causes).toEqual([]);
    expect(create(roles, object("Role", { rules: [rule] })).causes).toEqual(["FieldValueInvalid rules[0].nonResourceURLs"]);
    expect(create(roles, object("Role", { rules: [{ resources: ["pods"] }] })).causes).toEqual([
      "FieldValueRequired rules[0].verbs",
      "FieldValueRequired rules[0].apiGroups",
    ]);
  });

  it("defaults and validates the groups of references", () => {
    const sent = object("RoleBinding", {
      roleRef: { kind: "Role", name: "reader" },
      subjects: [
        { kind: "User", name: "u" },
        { kind: "ServiceAccount", name: "s", namespace: "n" },
      ],
    });
    const { made, causes } = create(bindings, sent);
    expect(causes).toEqual([]);
    expect(valueAt(made, "subjects", 0, "apiGroup")).toBe("rbac.authorization.k8s.io");
    expect(bindings.cells?.(made, now)).toEqual(["Role/reader", "10m", "u", "", "n/s"]);
    expect(create(clusterBindings, sent).causes).toEqual(["FieldValueNotSupported roleRef.kind"]);
    expect(
      create(bindings, object("RoleBinding", { roleRef: { kind: "Role" }, subjects: [{ kind: "Robot", name: "r" }] })).causes,
    ).toEqual(["FieldValueRequired roleRef.name", "FieldValueNotSupported subjects[0].kind"]);
  });

  it("has immutable role references", () => {
    const old = create(bindings, object("RoleBinding", { roleRef: { kind: "Role", name: "a" } })).made;
    expect(update(bindings, old, object("RoleBinding", { roleRef: { kind: "Role", name: "a" } })).causes).toEqual([]);
    expect(update(bindings, old, object("RoleBinding", { roleRef: { kind: "Role", name: "b" } })).causes).toEqual([
      "FieldValueInvalid roleRef",
    ]);
  });
});

describe("every kind", () => {
  it("has a cell for each of its columns", () => {
    // As in kube-apiserver, rows of IPAddresses have an age without a column.
    for (const kind of kinds.filter((each) => each.cells !== undefined && each.kind !== "IPAddress")) {
      expect(kind.cells?.(object(kind.kind), now), kind.kind).toHaveLength(kind.columns.length);
    }
  });
});
