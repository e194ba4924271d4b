import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startTestEnvironment, type TestEnvironment } from "../testing/test-environment.ts";
import { type RequestArguments, requestError, sendRequest } from "./testing/send-request.ts";

let environment: TestEnvironment;
const maps = "/api/v1/namespaces/default/configmaps";
const watched = "/api/v1/watch/namespaces/default/configmaps";
const things = "/apis/example.com/v1/namespaces/default/things";
const thing = { apiVersion: "example.com/v1", kind: "Thing", metadata: { name: "a" } };
const map = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "a" } };

const properties = {
  spec: { type: "object", properties: { text: { type: "string" }, none: { type: "string", nullable: true } } },
};

beforeAll(async () => {
  const crd = {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: "things.example.com" },
    spec: {
      group: "example.com",
      scope: "Namespaced",
      names: { plural: "things", singular: "thing", kind: "Thing", listKind: "ThingList" },
      versions: [{ name: "v1", served: true, storage: true, schema: { openAPIV3Schema: { type: "object", properties } } }],
    },
  };
  environment = await startTestEnvironment({ crds: [crd] });
  expect((await sendRequest(environment, "POST", maps, map)).code).toBe(201);
  expect((await sendRequest(environment, "POST", things, thing)).code).toBe(201);
});
afterAll(() => environment.stop());

/** Requests and the errors of kube-apiserver 1.35. */
const refused: readonly (readonly [string, RequestArguments, readonly string[]])[] = [
  ["a policy in a body that is not a text", ["DELETE", `${maps}/a`, { propagationPolicy: 1 }], ["400 BadRequest"]],
  ["orphanDependents that is a text", ["DELETE", `${maps}/a`, { orphanDependents: "x" }], ["400 BadRequest"]],
  [
    "an empty policy",
    ["DELETE", `${maps}/a`, { propagationPolicy: "" }],
    ["422 Invalid", "FieldValueNotSupported propagationPolicy"],
  ],
  ["an empty grace period", ["DELETE", `${maps}/a?gracePeriodSeconds=`], ["400 BadRequest"]],
  ["an empty limit", ["GET", `${maps}?limit=`], ["400 BadRequest"]],
  ["a timeout that is not a duration", ["GET", `${maps}/a?timeout=x`], ["400 BadRequest"]],
  ["a timeout without a unit", ["GET", `${maps}/a?timeout=10`], ["400 BadRequest"]],
  ["a write to the path of a watch", ["POST", watched, map], ["405 MethodNotAllowed"]],
  [
    "initial events on the path of a watch",
    ["GET", `${watched}?sendInitialEvents=true`],
    ["422 Invalid", "FieldValueForbidden sendInitialEvents"],
  ],
  ["a resourceVersion of a new object", ["POST", maps, { metadata: { name: "b", resourceVersion: "12" } }], ["500"]],
  ["an applied object without type", ["PATCH", `${maps}/a?fieldManager=m`, {}, "apply"], ["400 BadRequest"]],
  ["applied metadata that is not an object", ["PATCH", `${maps}/a?fieldManager=m`, { ...map, metadata: 1 }, "apply"], ["500"]],
  [
    "an applied generation that is a text",
    ["PATCH", `${maps}/a?fieldManager=m`, { ...map, metadata: { generation: "x" } }, "apply"],
    ["500"],
  ],
  [
    "an applied null in a custom object",
    ["PATCH", `${things}/a?fieldManager=m`, { ...thing, spec: { text: null, none: null } }, "apply"],
    ["422 Invalid", "FieldValueTypeInvalid spec.text"],
  ],
  ["another version of a custom object", ["POST", things, { ...thing, apiVersion: "v1", kind: "Pod" }], ["400 BadRequest"]],
  ["a kind that is not a text", ["POST", things, { ...thing, kind: 1 }], ["400 BadRequest"]],
  [
    "a time that cannot be parsed",
    ["POST", things, { ...thing, metadata: { name: "b", creationTimestamp: "nope" } }],
    ["400 BadRequest"],
  ],
  [
    "an entry of managedFields of the wrong type",
    ["POST", things, { ...thing, metadata: { name: "b", managedFields: [{ manager: 1 }] } }],
    ["400 BadRequest"],
  ],
  [
    "a patch to another kind and version",
    ["PATCH", `${things}/a`, { apiVersion: "v1", kind: "Pod" }, "merge"],
    ["422 Invalid", "FieldValueInvalid kind", "FieldValueInvalid apiVersion"],
  ],
  ["a malformed patch of a missing object", ["PATCH", `${maps}/missing`, {}, "operations"], ["404 NotFound"]],
  ["an update without a name", ["PUT", things, thing], ["400 BadRequest"]],
  ["a custom object without a namespace", ["POST", "/apis/example.com/v1/things", thing], ["404 NotFound"]],
];

describe("a request that kube-apiserver refuses", () => {
  it.each(refused)("%s", async (_what, request, expected) => {
    expect(await requestError(environment, ...request)).toEqual(expected);
  });

  it("names the verb that a custom resource does not support", async () => {
    const { code, body } = await sendRequest(environment, "POST", `${things}/a`, thing);
    expect([code, body["message"]]).toEqual([405, 'create is not supported on resources of kind "things.example.com"']);
  });

  it("names a custom object whose subresource is not served", async () => {
    const { body } = await sendRequest(environment, "GET", `${things}/a/status`);
    expect(body["details"]).toEqual({ name: "a", group: "example.com", kind: "things" });
  });
});

const accepted: readonly (readonly [string, RequestArguments, number])[] = [
  ["a negative grace period", ["DELETE", `${maps}/a?dryRun=All&gracePeriodSeconds=-5`], 200],
  ["a duration with a fraction", ["GET", `${maps}/a?timeout=1.5h2m`], 200],
  ["a timeout without a unit of a watch", ["GET", `${maps}?watch=true&timeout=30`], 200],
  [
    "a resourceVersion in the dry run of a create",
    ["POST", `${maps}?dryRun=All`, { metadata: { name: "b", resourceVersion: "12" } }],
    201,
  ],
  [
    "a null in a list of objects",
    ["POST", "/api/v1/namespaces/default/serviceaccounts", { metadata: { name: "s" }, secrets: [null] }],
    201,
  ],
];

describe("a request that kube-apiserver accepts", () => {
  it.each(accepted)("%s", async (_what, request, code) => {
    expect((await sendRequest(environment, ...request)).code).toBe(code);
  });

  it("passes on a timeout without a unit to a proxy's target", async () => {
    const path = "/api/v1/namespaces/default/services/s/proxy/query?timeout=30";
    expect((await sendRequest(environment, "GET", path)).body["message"]).toBe("a proxied request must be sent over HTTP");
  });

  it("deletes although the query says dryRun if the body does not", async () => {
    await sendRequest(environment, "POST", maps, { metadata: { name: "gone" } });
    expect((await sendRequest(environment, "DELETE", `${maps}/gone?dryRun=All`, {})).code).toBe(200);
    expect((await sendRequest(environment, "GET", `${maps}/gone`)).code).toBe(404);
  });
});
