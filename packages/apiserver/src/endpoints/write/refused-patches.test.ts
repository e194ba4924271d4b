import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startTestEnvironment, type TestEnvironment } from "../../testing/test-environment.ts";
import { type RequestArguments, requestError, sendRequest } from "../testing/send-request.ts";

let environment: TestEnvironment;
const maps = "/api/v1/namespaces/default/configmaps";
const pods = "/api/v1/namespaces/default/pods";
const deployments = "/apis/apps/v1/namespaces/default/deployments";
const map = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "a" }, data: { a: "1" } };
const deployment = {
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: { name: "a" },
  spec: {
    selector: { matchLabels: { a: "b" } },
    template: { metadata: { labels: { a: "b" } }, spec: { containers: [{ name: "c", image: "i" }] } },
  },
};
const pod = {
  metadata: { name: "a" },
  spec: {
    containers: [{ name: "c", image: "i" }],
    activeDeadlineSeconds: 100,
    tolerations: [{ key: "k", operator: "Exists" }],
  },
};

beforeAll(async () => {
  environment = await startTestEnvironment();
  for (const [path, object] of [
    [maps, map],
    [deployments, deployment],
    [pods, pod],
  ] as const) {
    expect((await sendRequest(environment, "POST", path, object)).code).toBe(201);
  }
});
afterAll(() => environment.stop());

/** A configuration of the Deployment with these fields of the Pod template. */
const applied = (spec: object, metadata: object = {}): RequestArguments => [
  "PATCH",
  `${deployments}/a?fieldManager=m&dryRun=All`,
  { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "a", ...metadata }, spec: { template: { spec } } },
  "apply",
];

const patchedPod = (spec: object): RequestArguments => ["PATCH", `${pods}/a?dryRun=All`, { spec }, "merge"];

/** Patches and the errors of kube-apiserver 1.35. */
const refused: readonly (readonly [string, RequestArguments, readonly string[]])[] = [
  [
    "an item of a built-in list without its key",
    applied({ containers: [{ image: "c" }] }),
    ["422 Invalid", "FieldValueRequired spec.template.spec.containers[1].name"],
  ],
  [
    "an item without one of its keys",
    applied({ containers: [{ name: "c", ports: [{ protocol: "TCP" }] }] }),
    ["422 Invalid", "FieldValueRequired spec.template.spec.containers[0].ports[0].containerPort"],
  ],
  [
    "an applied deletionTimestamp",
    applied({}, { deletionTimestamp: "2020-01-01T00:00:00Z" }),
    ["422 Invalid", "FieldValueInvalid metadata.deletionTimestamp"],
  ],
  [
    "a mount of an invalid volume",
    applied({
      containers: [{ name: "c", volumeMounts: [{ name: "v", mountPath: "/v" }] }],
      volumes: [{ name: "v", emptyDir: {}, hostPath: { path: "/x" } }],
    }),
    [
      "422 Invalid",
      "FieldValueForbidden spec.template.spec.volumes[0].hostPath",
      "FieldValueNotFound spec.template.spec.containers[0].volumeMounts[0].name",
    ],
  ],
  [
    "other fields of a Pod together with a removed toleration",
    patchedPod({ tolerations: [], hostname: "x" }),
    ["422 Invalid", "FieldValueForbidden spec.tolerations", "FieldValueForbidden spec"],
  ],
  [
    "a later deadline of a Pod, which hides other faults",
    patchedPod({ activeDeadlineSeconds: 200, tolerations: [], hostname: "x" }),
    ["422 Invalid", "FieldValueInvalid spec.activeDeadlineSeconds"],
  ],
  [
    "a new scheduling gate",
    patchedPod({ schedulingGates: [{ name: "g" }] }),
    ["422 Invalid", "FieldValueForbidden spec.schedulingGates[0].name"],
  ],
];

/** Patches and the messages of kube-apiserver 1.35. */
const messages: readonly (readonly [string, RequestArguments, string])[] = [
  [
    "a merge patch that is a list",
    ["PATCH", `${maps}/a`, [], "merge"],
    "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
  ],
  ["a merge patch that is null", ["PATCH", `${maps}/a`, null, "merge"], "Invalid JSON Patch"],
  [
    "a strategic patch that is a text",
    ["PATCH", `${maps}/a`, "x", "strategic"],
    "json: cannot unmarshal string into Go value of type map[string]interface {}",
  ],
  [
    "a strategic patch, which is quoted",
    ["PATCH", `${maps}/a?fieldValidation=Strict`, { nope: [1, { b: "c" }] }, "strategic"],
    ' "" is invalid: patch: Invalid value: "map[nope:[1 map[b:c]]]": strict decoding error: unknown field "nope"',
  ],
  [
    "a strategic patch with a value of another type",
    ["PATCH", `${maps}/a`, { data: [1] }, "strategic"],
    ' "" is invalid: patch: Invalid value: "map[data:[1]]": cannot restore map from slice',
  ],
  ["an empty strategic patch", ["PATCH", `${maps}/a`, undefined, "strategic"], "unexpected end of JSON input"],
  ["an empty merge patch", ["PATCH", `${maps}/a`, undefined, "merge"], "error decoding patch: unexpected end of JSON input"],
  [
    "another namespace",
    ["PATCH", `${maps}/a`, { metadata: { namespace: "b" } }, "merge"],
    "the namespace of the provided object does not match the namespace sent on the request",
  ],
];

describe("kube-apiserver refuses", () => {
  it.each(refused)("%s", async (_what, request, expected) => {
    expect(await requestError(environment, ...request)).toEqual(expected);
  });

  it.each(messages)("%s", async (_what, request, expected) => {
    expect((await sendRequest(environment, ...request)).body["message"]).toBe(expected);
  });

  it("a merge patch whose result is of another type, which is quoted as JSON", async () => {
    const { body } = await sendRequest(environment, "PATCH", `${maps}/a`, { data: { a: 1 } }, "merge");
    expect(body["message"]).toMatch(
      /^ "" is invalid: patch: Invalid value: "\{\\"apiVersion\\":.*\}": json: cannot unmarshal number into Go struct field ConfigMap\.data of type string$/,
    );
  });
});
