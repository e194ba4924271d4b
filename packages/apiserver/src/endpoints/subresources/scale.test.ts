import { afterAll, beforeAll, expect, it } from "vitest";
import { startTestEnvironment, type TestEnvironment } from "../../testing/test-environment.ts";
import { sendRequest } from "../testing/send-request.ts";

const deployments = "/apis/apps/v1/namespaces/default/deployments";
let environment: TestEnvironment;
beforeAll(async () => {
  environment = await startTestEnvironment();
});
afterAll(() => environment.stop());

it("reports conflicts over replicas in the version of the Scale", async () => {
  const template = { metadata: { labels: { a: "b" } }, spec: { containers: [{ name: "c", image: "i" }] } };
  const deployment = { metadata: { name: "d" }, spec: { replicas: 1, selector: { matchLabels: { a: "b" } }, template } };
  await sendRequest(environment, "POST", deployments, deployment);
  const scale = { apiVersion: "autoscaling/v1", kind: "Scale", metadata: { name: "d" }, spec: { replicas: 9 } };
  const { code, body } = await sendRequest(environment, "PATCH", `${deployments}/d/scale?fieldManager=m`, scale, "apply");
  expect(code).toBe(409);
  expect(body["message"]).toMatch(
    /^Apply failed with 1 conflict: conflict with "[^"]*" using autoscaling\/v1: \.spec\.replicas$/,
  );
  expect(body["details"].causes).toEqual([
    { reason: "FieldManagerConflict", message: expect.stringMatching(/ using autoscaling\/v1$/), field: ".spec.replicas" },
  ]);
});

it("quotes a strategic merge patch with a value of the wrong type", async () => {
  const { body } = await sendRequest(environment, "PATCH", `${deployments}/d/scale`, { spec: { replicas: "x" } }, "strategic");
  expect(body["message"]).toBe(' "" is invalid: patch: Invalid value: "map[spec:map[replicas:x]]": unrecognized type: int32');
});
