import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { requestError, sendRequest } from "../../endpoints/testing/send-request.ts";
import { startTestEnvironment, type TestEnvironment } from "../../testing/test-environment.ts";

let environment: TestEnvironment;
beforeAll(async () => {
  environment = await startTestEnvironment();
});
afterAll(() => environment.stop());

const invalid = "FieldValueInvalid";
const missing = "FieldValueRequired";
const unsupported = "FieldValueNotSupported";
const duplicate = "FieldValueDuplicate";

type Content = Readonly<Record<string, unknown>>;

/** The kinds of the tables below: the path of their collection, and the apiVersion. */
const collections = {
  FlowSchema: ["/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", "flowcontrol.apiserver.k8s.io/v1"],
  PriorityLevelConfiguration: [
    "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
    "flowcontrol.apiserver.k8s.io/v1",
  ],
  ValidatingAdmissionPolicy: [
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "admissionregistration.k8s.io/v1",
  ],
  ValidatingAdmissionPolicyBinding: [
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    "admissionregistration.k8s.io/v1",
  ],
  ResourceClaim: ["/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", "resource.k8s.io/v1"],
  ResourceSlice: ["/apis/resource.k8s.io/v1/resourceslices", "resource.k8s.io/v1"],
  Event: ["/apis/events.k8s.io/v1/namespaces/default/events", "events.k8s.io/v1"],
  ClusterRole: ["/apis/rbac.authorization.k8s.io/v1/clusterroles", "rbac.authorization.k8s.io/v1"],
  RuntimeClass: ["/apis/node.k8s.io/v1/runtimeclasses", "node.k8s.io/v1"],
  VolumeAttributesClass: ["/apis/storage.k8s.io/v1/volumeattributesclasses", "storage.k8s.io/v1"],
  Pod: ["/api/v1/namespaces/default/pods", "v1"],
} as const;
type Kind = keyof typeof collections;

function request(kind: Kind, content: Content, name = "a"): [string, object] {
  const [path, apiVersion] = collections[kind];
  return [path, { apiVersion, kind, metadata: { name }, ...content }];
}

const rule = { verbs: ["get"], nonResourceURLs: ["/x"] };
const schema = (subject: Content, rules: Content = { nonResourceRules: [rule] }): Content => ({
  spec: { priorityLevelConfiguration: { name: "p" }, rules: [{ subjects: [subject], ...rules }] },
});
const group = { kind: "Group", group: { name: "g" } };
const resourceRule = { apiGroups: ["*"], apiVersions: ["*"], operations: ["CREATE"], resources: ["*"] };
const policy = (spec: Content): Content => ({
  spec: { matchConstraints: { resourceRules: [resourceRule] }, validations: [{ expression: "true" }], ...spec },
});
const binding = (spec: Content): Content => ({ spec: { policyName: "p", validationActions: ["Deny"], ...spec } });
const exactly = { deviceClassName: "c" };
const claim = (devices: Content): Content => ({ spec: { devices: { requests: [{ name: "r", exactly }], ...devices } } });
const slice = (spec: Content): Content => ({
  spec: { driver: "d.io", nodeName: "n", pool: { name: "p", resourceSliceCount: 1 }, ...spec },
});
const event = {
  regarding: { namespace: "default" },
  eventTime: "2020-01-01T00:00:00.000000Z",
  reportingController: "c",
  reportingInstance: "i",
  action: "A",
  reason: "R",
  type: "Normal",
};
const container = { name: "c", image: "i" };

/** Objects and the causes of kube-apiserver 1.35. */
const refused: readonly (readonly [Kind, string, Content, readonly string[]])[] = [
  ["FlowSchema", "a subject without its part", schema({ kind: "User" }), [`${missing} spec.rules[0].subjects[0].user`]],
  [
    "FlowSchema",
    "a subject with another part",
    schema({ ...group, user: { name: "u" } }),
    ["FieldValueForbidden spec.rules[0].subjects[0].user"],
  ],
  [
    "FlowSchema",
    "a service account without a namespace",
    schema({ kind: "ServiceAccount", serviceAccount: { name: "s" } }),
    [`${missing} spec.rules[0].subjects[0].serviceAccount.namespace`],
  ],
  [
    "FlowSchema",
    "an unknown verb",
    schema(group, { nonResourceRules: [{ ...rule, verbs: ["look"] }] }),
    [`${unsupported} spec.rules[0].nonResourceRules[0].verbs`],
  ],
  [
    "FlowSchema",
    "a path with an inner wildcard",
    schema(group, { nonResourceRules: [{ ...rule, nonResourceURLs: ["/a*b"] }] }),
    [`${invalid} spec.rules[0].nonResourceRules[0].nonResourceURLs[0]`],
  ],
  ["PriorityLevelConfiguration", "a second exempt level", { spec: { type: "Exempt", exempt: {} } }, [`${invalid} spec.type`]],
  [
    "ValidatingAdmissionPolicy",
    "an empty kind of parameters",
    policy({ paramKind: {} }),
    [`${missing} spec.paramKind.apiVersion`, `${missing} spec.paramKind.kind`],
  ],
  [
    "ValidatingAdmissionPolicy",
    "an invalid kind of parameters",
    policy({ paramKind: { apiVersion: "A_b/v1", kind: "a!" } }),
    [`${invalid} spec.paramKind.apiVersion`, `${invalid} spec.paramKind.kind`],
  ],
  [
    "ValidatingAdmissionPolicy",
    "an invalid selector and a repeated name",
    policy({
      matchConstraints: {
        resourceRules: [{ ...resourceRule, resourceNames: ["a", "a"] }],
        objectSelector: { matchExpressions: [{ key: "k", operator: "Near" }] },
      },
    }),
    [
      `${invalid} spec.matchConstraints.objectSelector.matchExpressions[0].operator`,
      `${duplicate} spec.matchConstraints.resourceRules[0].resourceNames[1]`,
    ],
  ],
  ["ValidatingAdmissionPolicyBinding", "an invalid policy", binding({ policyName: "A_b" }), [`${invalid} spec.policyName`]],
  [
    "ValidatingAdmissionPolicyBinding",
    "an invalid rule",
    binding({ matchResources: { resourceRules: [{ ...resourceRule, operations: [] }] } }),
    [`${missing} spec.matchResources.resourceRules[0].operations`],
  ],
  [
    "ResourceClaim",
    "requests with the same name",
    claim({ requests: [1, 2].map(() => ({ name: "r", exactly })) }),
    [`${duplicate} spec.devices.requests[1]`],
  ],
  [
    "ResourceClaim",
    "a constraint on an unknown request",
    claim({ constraints: [{ requests: ["x"], matchAttribute: "a.b/c" }] }),
    [`${invalid} spec.devices.constraints[0].requests[0]`],
  ],
  [
    "ResourceClaim",
    "a constraint without a domain",
    claim({ constraints: [{ requests: ["r"], matchAttribute: "c" }] }),
    [`${invalid} spec.devices.constraints[0].matchAttribute`],
  ],
  [
    "ResourceClaim",
    "a count for all devices",
    claim({ requests: [{ name: "r", exactly: { ...exactly, allocationMode: "All", count: 1 } }] }),
    [`${invalid} spec.devices.requests[0].exactly.count`],
  ],
  ["ResourceSlice", "no number of slices", slice({ pool: { name: "p" } }), [`${invalid} spec.pool.resourceSliceCount`]],
  [
    "ResourceSlice",
    "an attribute with two values",
    slice({ devices: [{ name: "d", attributes: { a: { int: 1, bool: true } } }] }),
    [`${invalid} spec.devices[0].attributes[a]`],
  ],
  [
    "ResourceSlice",
    "a version that is not semantic",
    slice({ devices: [{ name: "d", attributes: { v: { version: "1" } } }] }),
    [`${invalid} spec.devices[0].attributes[v].version`],
  ],
  ["Event", "no time", { ...event, eventTime: undefined, type: "Odd" }, [`${missing} eventTime`, `${invalid} type`]],
  [
    "Event",
    "a short series",
    { ...event, series: { count: 1, lastObservedTime: event.eventTime } },
    [`${invalid} series.count`],
  ],
  ["Event", "no action", { ...event, action: "" }, [`${missing} action`]],
  ["ClusterRole", "no aggregated roles", { aggregationRule: {} }, [`${missing} aggregationRule.clusterRoleSelectors`]],
  [
    "RuntimeClass",
    "an invalid toleration",
    { handler: "h", scheduling: { tolerations: [{ operator: "Equal" }] } },
    [`${invalid} scheduling.tolerations[0].operator`],
  ],
  ["VolumeAttributesClass", "no parameters", { driverName: "d.io" }, [`${missing} parameters`]],
  [
    "Pod",
    "a claim without a name of one",
    { spec: { containers: [container], resourceClaims: [{ name: "r" }] } },
    [`${invalid} spec.resourceClaims[0]`],
  ],
  [
    "Pod",
    "an image volume without an image",
    { spec: { containers: [container], volumes: [{ name: "v", image: {} }] } },
    [`${missing} spec.volumes[0].image.reference`],
  ],
];

describe("a create is refused", () => {
  it.each(refused)("%s with %s", async (kind, _what, content, expected) => {
    expect(await requestError(environment, "POST", ...request(kind, content))).toEqual(["422 Invalid", ...expected]);
  });
});

describe("an update", () => {
  it("of an Event of events.k8s.io changes nothing but its series", async () => {
    const [path, created] = request("Event", event, "e");
    await sendRequest(environment, "POST", path, created);
    const series = { count: 2, lastObservedTime: event.eventTime };
    expect((await sendRequest(environment, "PATCH", `${path}/e`, { series }, "merge")).code).toBe(200);
    const patch = { note: "n", regarding: { name: "p" } };
    expect(await requestError(environment, "PATCH", `${path}/e`, patch, "merge")).toEqual([
      "422 Invalid",
      `${invalid} involvedObject`,
      `${invalid} message`,
    ]);
  });

  it("of a gated Pod only restricts it to fewer nodes", async () => {
    const spec = { containers: [container], schedulingGates: [{ name: "g" }], nodeSelector: { a: "b" } };
    const [path, created] = request("Pod", { spec }, "gated");
    await sendRequest(environment, "POST", path, created);
    const change = (nodeSelector: object): Promise<string[]> =>
      requestError(environment, "PATCH", `${path}/gated`, { spec: { nodeSelector } }, "merge");
    expect(await change({ c: "d" })).toEqual(["200"]);
    expect(await change({ a: "x" })).toEqual(["422 Invalid", `${invalid} spec.nodeSelector`]);
    const affinity = { podAntiAffinity: {} };
    expect(await requestError(environment, "PATCH", `${path}/gated`, { spec: { affinity } }, "merge")).toEqual([
      "422 Invalid",
      "FieldValueForbidden spec",
    ]);
  });
});

it("drops fields of device features that are off by default", async () => {
  const tolerations = [{ key: "k", operator: "Exists" }];
  const requests = [{ name: "r", exactly: { ...exactly, tolerations, capacity: { requests: { memory: "1Gi" } } } }];
  const created = await sendRequest(environment, "POST", ...request("ResourceClaim", claim({ requests }), "dropped"));
  expect(created.body["spec"].devices.requests[0].exactly).toEqual({
    deviceClassName: "c",
    allocationMode: "ExactCount",
    count: 1,
  });
  const devices = [{ name: "d", taints: [{ key: "k", effect: "NoSchedule" }] }];
  const sliced = await sendRequest(environment, "POST", ...request("ResourceSlice", slice({ devices }), "dropped"));
  expect(sliced.body["spec"].devices).toEqual([{ name: "d" }]);
});
