import type { KubernetesObject } from "@keelson/api-machinery";
import { statusError } from "@keelson/api-machinery";
import { describe, expect, it } from "vitest";
import { systemUser } from "../system-user.ts";
import { startTestEnvironment } from "../testing/test-environment.ts";
import type { AdmissionStep } from "./admission.ts";

const path = "/api/v1/namespaces/default/configmaps";
const create = { method: "POST", path, user: systemUser, body: { metadata: { name: "c" }, data: { a: "1" } } } as const;

describe("admission", () => {
  it("mutates in order before it validates the result, and prunes unknown fields", async () => {
    const calls: string[] = [];
    const label = (name: string): AdmissionStep => ({
      name,
      mutate({ object, resource }) {
        if (resource.plural !== "configmaps" || object === undefined) return false;
        calls.push(`mutate ${name}`);
        object.metadata.labels = { ...object.metadata.labels, [name]: "yes" };
        Object.assign(object, { unknown: 1 });
        return true;
      },
      validate({ object, resource }) {
        if (resource.plural === "configmaps")
          calls.push(`validate ${name} ${Object.keys(object?.metadata.labels ?? {}).join()}`);
      },
    });
    await using environment = await startTestEnvironment({ admission: [label("one"), label("two")] });
    const outcome = await environment.handle(create);
    expect(calls).toEqual(["mutate one", "mutate two", "validate one one,two", "validate two one,two"]);
    if (outcome.kind !== "object") throw new Error(JSON.stringify(outcome));
    expect(outcome.object.object.metadata.labels).toEqual({ one: "yes", two: "yes" });
    expect(outcome.object.object).not.toHaveProperty("unknown");
  });

  it("runs steps in order, those that wait and those that do not, and the second round only if one is due", async () => {
    const calls: string[] = [];
    const ofConfigMaps: AdmissionStep["appliesTo"] = ({ resource }) => resource.plural === "configmaps";
    const plain = (name: string): AdmissionStep => ({
      name,
      appliesTo: ofConfigMaps,
      mutate() {
        calls.push(`mutate ${name}`);
        return false;
      },
      validate: () => void calls.push(`validate ${name}`),
      review: () => void calls.push(`review ${name}`),
    });
    const waiting: AdmissionStep = {
      name: "waiting",
      appliesTo: ofConfigMaps,
      beginMutation: () => ({
        async run(isReinvocation) {
          await Promise.resolve();
          calls.push(`mutate waiting ${isReinvocation}`);
          return { isChanged: !isReinvocation, needsReinvocation: !isReinvocation };
        },
      }),
      async validate() {
        await Promise.resolve();
        calls.push("validate waiting");
      },
      async review() {
        await Promise.resolve();
        calls.push("review waiting");
      },
    };
    await using environment = await startTestEnvironment({ admission: [plain("first"), waiting, plain("last")] });
    expect((await environment.handle(create)).kind).toBe("object");
    expect(calls).toEqual([
      ...["mutate first", "mutate waiting false", "mutate last", "mutate first", "mutate waiting true", "mutate last"],
      ...["validate first", "validate waiting", "validate last", "review first", "review waiting", "review last"],
    ]);
  });

  it("asks a step once for each kind of write whether it concerns it", async () => {
    const asked: string[] = [];
    const validated: string[] = [];
    const step: AdmissionStep = {
      name: "creates",
      appliesTo({ operation, resource, subresource }) {
        if (resource.plural === "configmaps") asked.push(`${operation} ${subresource}`);
        return resource.plural === "configmaps" && operation === "CREATE";
      },
      validate: ({ operation, name }) => void validated.push(`${operation} ${name}`),
    };
    await using environment = await startTestEnvironment({ admission: [step] });
    for (const name of ["a", "b"]) {
      const body = { metadata: { name } };
      await environment.handle({ ...create, body });
      await environment.handle({ ...create, method: "PUT", path: `${path}/${name}`, body: { ...body, data: { a: "1" } } });
    }
    expect(asked).toEqual(["CREATE ", "UPDATE "]);
    expect(validated).toEqual(["CREATE a", "CREATE b"]);
  });

  it("rejects with the step's error and stores nothing", async () => {
    const seen: (KubernetesObject | undefined)[] = [];
    const guard: AdmissionStep = {
      name: "guard",
      validate({ operation, resource, object }) {
        if (resource.plural !== "configmaps") return;
        seen.push(object);
        if (operation === "DELETE") throw statusError("Forbidden", "it stays");
        if (operation === "UPDATE") throw statusError("TooManyRequests", "later");
      },
    };
    await using environment = await startTestEnvironment({ admission: [guard] });
    expect((await environment.handle(create)).kind).toBe("object");
    const { revision } = environment.store;
    const named = { path: `${path}/c`, user: systemUser } as const;
    expect(await environment.handle({ method: "DELETE", ...named })).toMatchObject({
      status: { code: 403, message: "it stays" },
    });
    const body = { metadata: { name: "c" }, data: { a: "2" } };
    expect(await environment.handle({ method: "PUT", ...named, body })).toMatchObject({ status: { code: 429 } });
    expect(environment.store.revision).toBe(revision);
    expect(seen.length).toBe(3);
  });

  it("answers a review of permissions in a namespace that does not exist", async () => {
    await using environment = await startTestEnvironment();
    const outcome = await environment.handle({
      method: "POST",
      path: "/apis/authorization.k8s.io/v1/namespaces/missing/localsubjectaccessreviews",
      user: systemUser,
      body: {
        apiVersion: "authorization.k8s.io/v1",
        kind: "LocalSubjectAccessReview",
        metadata: { namespace: "missing" },
        spec: { user: "ada", resourceAttributes: { namespace: "missing", verb: "get", resource: "pods" } },
      },
    });
    expect(outcome).toMatchObject({ kind: "object", status: 201, object: { object: { status: { allowed: false } } } });
  });
});
