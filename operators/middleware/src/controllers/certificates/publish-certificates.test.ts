import { controllerReference, type DeepReadonly, type KubernetesObject, statusError } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import { describe, expect, it } from "vitest";
import { App } from "../../api/app.ts";
import { foreignObject } from "./publish-certificates.ts";

const runtime = { name: "redis", version: "7.2" };
const metadata = { name: "cache", namespace: "default", uid: "u1" };
const app: App = {
  apiVersion: "middleware.io/v1alpha1",
  kind: App.kind,
  metadata,
  spec: { plugin: runtime, runtime },
};

/** What is foreign if one object exists. `uid`: of the App that controls it. */
function foreign(object: string, uid: string | undefined, hasSecret = false): Promise<string | undefined> {
  const owner = { ...app, metadata: { ...metadata, uid: uid ?? "" } };
  const get = (
    { kind }: { readonly kind: string },
    { name }: { readonly name: string },
  ): Promise<DeepReadonly<KubernetesObject>> => {
    if (`${kind} ${name}` !== object) return Promise.reject(statusError("NotFound", `${kind} ${name} not found`));
    const ownerReferences = uid === undefined ? [] : [controllerReference(owner)];
    return Promise.resolve({ apiVersion: "v1", kind, metadata: { name, ownerReferences } });
  };
  return foreignObject(app, hasSecret, { client: { get: get as Client["get"] }, signal: new AbortController().signal });
}

describe("the objects with the certificates of an App", () => {
  it.each(["Secret cache-ca", "ConfigMap cache-ca", "Secret cache-tls"])("%s must be controlled by the App", async (object) => {
    expect(await foreign(object, undefined)).toContain(`${object} exists and is not controlled by this App`);
    // Of an App with this name that was deleted.
    expect(await foreign(object, "u0")).toContain("not controlled by this App");
    expect(await foreign(object, "u1")).toBeUndefined();
  });

  it("do not include the Secret of an App that uses one of the user", async () => {
    expect(await foreign("Secret cache-tls", undefined, true)).toBeUndefined();
  });
});
