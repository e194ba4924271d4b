import type { KubernetesObject } from "@keelson/api-machinery";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { requestError, sendRequest } from "../../endpoints/testing/send-request.ts";
import { storageKey } from "../../storage/store.ts";
import { startTestEnvironment, type TestEnvironment } from "../../testing/test-environment.ts";

let environment: TestEnvironment;
beforeAll(async () => {
  environment = await startTestEnvironment();
});
afterAll(() => environment.stop());

type Content = Readonly<Record<string, unknown>>;

/** A kind of the tables below. */
interface Kind {
  readonly apiVersion: string;
  readonly kind: string;
  readonly plural: string;
  readonly namespace?: string;
}

const role = { apiVersion: "rbac.authorization.k8s.io/v1", kind: "ClusterRole", plural: "clusterroles" };
const attributes = { apiVersion: "storage.k8s.io/v1", kind: "VolumeAttributesClass", plural: "volumeattributesclasses" };
const runtime = { apiVersion: "node.k8s.io/v1", kind: "RuntimeClass", plural: "runtimeclasses" };
const deviceClass = { apiVersion: "resource.k8s.io/v1", kind: "DeviceClass", plural: "deviceclasses" };
const slice = { apiVersion: "resource.k8s.io/v1", kind: "ResourceSlice", plural: "resourceslices" };
const claim = { apiVersion: "resource.k8s.io/v1", kind: "ResourceClaim", plural: "resourceclaims", namespace: "default" };
const template = { ...claim, kind: "ResourceClaimTemplate", plural: "resourceclaimtemplates" };
const schema = { apiVersion: "flowcontrol.apiserver.k8s.io/v1", kind: "FlowSchema", plural: "flowschemas" };
const binding = {
  apiVersion: "admissionregistration.k8s.io/v1",
  kind: "ValidatingAdmissionPolicyBinding",
  plural: "validatingadmissionpolicybindings",
};
const pod = { apiVersion: "v1", kind: "Pod", plural: "pods", namespace: "default" };

const exactly = { deviceClassName: "c", allocationMode: "ExactCount", count: 1 };
const tolerations = [{ key: "k", operator: "Exists" }];
const devices = { requests: [{ name: "r", exactly: { ...exactly, tolerations, capacity: { requests: { memory: "1Gi" } } } }] };
const oldSlice = {
  driver: "d.io",
  nodeName: "n",
  pool: { name: "p", generation: 0, resourceSliceCount: 1 },
  devices: [
    { name: "d", taints: [{ key: "k", effect: "NoSchedule", timeAdded: "2020-01-01T00:00:00Z" }] },
    { name: "e", bindsToNode: true, capacity: { memory: { value: "1Gi", requestPolicy: { default: "1Gi" } } } },
  ],
};
const container = {
  name: "c",
  image: "i:1",
  imagePullPolicy: "IfNotPresent",
  resources: {},
  terminationMessagePath: "/dev/termination-log",
  terminationMessagePolicy: "File",
};
const imagePod = {
  containers: [container],
  volumes: [{ name: "v", image: { reference: "i:1" } }],
  restartPolicy: "Always",
  terminationGracePeriodSeconds: 30,
  dnsPolicy: "ClusterFirst",
  enableServiceLinks: true,
  schedulerName: "default-scheduler",
  securityContext: {},
  preemptionPolicy: "PreemptLowerPriority",
  priority: 0,
  serviceAccountName: "default",
  serviceAccount: "default",
};

/** Objects that an older version stored. */
const stored: readonly (readonly [string, Kind, Content])[] = [
  ["an empty aggregation rule", role, { aggregationRule: {}, rules: [] }],
  ["no parameters", attributes, { driverName: "d" }],
  ["an invalid selector of nodes", runtime, { handler: "h", scheduling: { nodeSelector: { "a b": "c" } } }],
  ["an extended resource", deviceClass, { spec: { extendedResourceName: "example.com/gpu" } }],
  ["fields of disabled features", slice, { spec: oldSlice }],
  ["tolerations and capacity", claim, { spec: { devices } }],
  ["tolerations and capacity", template, { spec: { spec: { devices }, metadata: {} } }],
  [
    "a subject without its part",
    schema,
    {
      spec: {
        priorityLevelConfiguration: { name: "p" },
        matchingPrecedence: 1000,
        rules: [{ subjects: [{ kind: "User" }], nonResourceRules: [{ verbs: ["look"], nonResourceURLs: ["/a*b"] }] }],
      },
    },
  ],
  ["an invalid name of a policy", binding, { spec: { policyName: "A_b", validationActions: ["Deny"] } }],
  ["an image volume without a pull policy", pod, { spec: imagePod }],
];

let count = 0;

/** Stores an object with a finalizer that requests could not create. Returns its path. */
async function store({ apiVersion, kind, plural, namespace = "" }: Kind, content: Content): Promise<string> {
  const name = `old-${++count}`;
  const [group = "", version] = apiVersion.includes("/") ? apiVersion.split("/") : ["", apiVersion];
  const metadata = {
    name,
    ...(namespace === "" ? {} : { namespace }),
    uid: `uid-${count}`,
    creationTimestamp: "2020-01-01T00:00:00Z",
    finalizers: ["example.com/f"],
  };
  const object: KubernetesObject = { apiVersion, kind, metadata, ...content };
  await environment.store.write(storageKey({ group, plural }, namespace, name), 0, object);
  const scope = namespace === "" ? "" : `/namespaces/${namespace}`;
  return `${group === "" ? "/api" : `/apis/${group}`}/${version}${scope}/${plural}/${name}`;
}

describe("an object of an older version", () => {
  it.each(stored)("with %s can be labelled, updated and deleted", async (_what, kind, content) => {
    const path = await store(kind, content);
    const before = (await sendRequest(environment, "GET", path)).body;
    const labels = { a: "b" };
    expect(await requestError(environment, "PATCH", path, { metadata: { labels } }, "merge")).toEqual(["200"]);
    const now = (await sendRequest(environment, "GET", path)).body;
    expect(now["metadata"].labels).toEqual(labels);
    if (kind !== pod) expect(now["spec"]).toEqual(before["spec"]);
    expect(await requestError(environment, "PUT", path, now)).toEqual(["200"]);
    await sendRequest(environment, "DELETE", path);
    expect(await requestError(environment, "PATCH", path, { metadata: { finalizers: null } }, "merge")).toEqual(["200"]);
    expect((await sendRequest(environment, "GET", path)).code).toBe(404);
  });

  it("keeps its faults only as they are", async () => {
    const path = await store(role, { aggregationRule: {}, rules: [] });
    const patch = { rules: [{ apiGroups: [""], resources: ["pods"], verbs: [] }] };
    expect(await requestError(environment, "PATCH", path, patch, "merge")).toEqual([
      "422 Invalid",
      "FieldValueRequired rules[0].verbs",
    ]);
    expect(await requestError(environment, "PATCH", path, { rules: [{ ...patch.rules[0], verbs: ["get"] }] }, "merge")).toEqual(
      ["200"],
    );
  });

  it("gets no fields of a feature that it does not use", async () => {
    const path = await store(slice, { spec: { ...oldSlice, devices: [{ name: "d" }] } });
    const patch = { spec: { devices: oldSlice.devices, sharedCounters: [{ name: "s", counters: {} }] } };
    const { body } = await sendRequest(environment, "PATCH", path, patch, "merge");
    expect(body["spec"].devices).toEqual([{ name: "d" }, { name: "e", capacity: { memory: { value: "1Gi" } } }]);
    expect(body["spec"].sharedCounters).toBeUndefined();
  });
});
