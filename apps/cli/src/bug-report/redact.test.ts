import type { JsonValue, KubernetesObject } from "@keelson/api-machinery";
import { describe, expect, it } from "vitest";
import { redactObject, redacted, redactText } from "./redact.ts";

const object = (fields: object, metadata: object = {}): KubernetesObject => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name: "a", ...metadata },
  ...fields,
});
const specOf = (spec: object): JsonValue => (redactObject(object({ spec })) as { readonly spec: JsonValue }).spec;

describe("text", () => {
  it.each([
    ["connecting to redis://default:hunter2@10.0.0.1:6379/0", "connecting to redis://REDACTED@10.0.0.1:6379/0"],
    ["authorization: Bearer abcdefghijk", `authorization: Bearer ${redacted}`],
    ["token eyJhbGciOi.eyJzdWIiOiJ.c2lnbmF0dXJl ended", `token ${redacted} ended`],
    ['{"password":"hunter2","user":"a"}', '{"password":"REDACTED","user":"a"}'],
    [String.raw`"{\"requirepass\":\"hunter2\"}"`, String.raw`"{\"requirepass\":\"REDACTED\"}"`],
    ["REDIS_PASSWORD=hunter2 started", "REDIS_PASSWORD=REDACTED started"],
    ["redis-server --requirepass hunter2 --port 1", "redis-server --requirepass REDACTED --port 1"],
    ["-----BEGIN EC PRIVATE KEY-----\nMHcC\n-----END EC PRIVATE KEY-----", redacted],
  ])("removes the credential of %j", (text, expected) => {
    expect(redactText(text)).toBe(expected);
  });

  it.each(["the token was rejected", "secret not found", "task-token-1 is pending", "3 passwords: none set", "image: none"])(
    "keeps %j",
    (text) => {
      expect(redactText(text)).toBe(text);
    },
  );

  // With a pattern that backtracks, this takes hours.
  it("is read in linear time", () => {
    for (const part of ["password", "a-", "-----BEGIN PRIVATE KEY-----", "eyJaaaaa.", "x://", "--token"]) {
      expect(redactText(part.repeat(100_000 / part.length))).not.toBe("");
    }
  });
});

describe("an object", () => {
  it("loses the data of a Secret, whatever its type", () => {
    const secret = { ...object({ data: { ca: "Y2E=" }, stringData: { a: "b" } }), kind: "Secret" };
    expect(redactObject(secret)).toMatchObject({ data: redacted, stringData: redacted });
  });

  it("loses the data of embedded Secrets, and its payload", () => {
    const secret = { apiVersion: "v1", kind: "Secret", metadata: { name: "s" }, data: { ca: "Y2E=" }, stringData: { a: "b" } };
    const configMap = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "c" }, data: { a: "b" } };
    expect(specOf({ steps: [{ manifests: [secret, configMap] }], payload: "aHVudGVyMg==" })).toEqual({
      steps: [{ manifests: [{ ...secret, data: redacted, stringData: redacted }, configMap] }],
      payload: redacted,
    });
    // `payload.required` only says whether a dispatch needs a payload.
    expect(specOf({ payload: { required: true } })).toEqual({ payload: { required: true } });
  });

  it("loses its managed fields and the copy that kubectl apply keeps", () => {
    const annotations = { "kubectl.kubernetes.io/last-applied-configuration": '{"spec":{}}', kept: "yes" };
    const metadata = { annotations, managedFields: [{ manager: "a" }] };
    expect(redactObject(object({}, metadata))).toEqual({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "a", annotations: { kept: "yes" } },
    });
  });

  it("loses the values of variables, but not what they refer to", () => {
    const reference = { name: "B", valueFrom: { secretKeyRef: { name: "s", key: "k" } } };
    expect(specOf({ env: [{ name: "A", value: "x" }, reference] })).toEqual({
      env: [{ name: "A", value: redacted }, reference],
    });
    expect(specOf({ env: { A: "x" }, envs: ["A=x=y"] })).toEqual({ env: { A: redacted }, envs: [`A=${redacted}`] });
  });

  it("loses fields and arguments that are named as secrets", () => {
    const spec = {
      adminPassword: "x",
      secretName: "s",
      tokenExpirationSeconds: 5,
      command: ["run", "--api-key", "x", "--port", "1"],
    };
    expect(specOf(spec)).toEqual({
      adminPassword: redacted,
      secretName: "s",
      tokenExpirationSeconds: 5,
      command: ["run", "--api-key", redacted, "--port", "1"],
    });
  });
});
