import { controllerReference, type DeepReadonly, type KubernetesObject, statusError } from "@keelson/api-machinery";
import { ConfigMap, Secret } from "@keelson/api-machinery/kinds";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import type { ReconcileContext } from "@keelson/controller";
import { describe, expect, it } from "vitest";
import { App } from "../../api/app.ts";
import { foreignObject, publishCertificates } from "./publish-certificates.ts";

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

describe("publishing certificates", () => {
  const key = { namespace: "default", name: "cache-ca" };
  const pair = { authorities: "ca", certificate: "crt", key: "key" };

  it("changes only objects that the App controls, even if another one takes the name after the check", async () => {
    await using environment = await startTestEnvironment();
    const client = createClient({ transport: environment.transport(), fieldManager: "test" });
    const access = await client.create(Secret, { metadata: { name: "cache-access", namespace: "default" } });
    /** Publishes with what the cache has: the objects at the time of the check. */
    const publish = async (cached: readonly DeepReadonly<KubernetesObject>[], authorities: string): Promise<void> => {
      const get = (_: unknown, { name }: { readonly name: string }) => cached.find((each) => each.metadata.name === name);
      const context = { client, cache: { get }, signal: new AbortController().signal } as unknown as ReconcileContext;
      const latest = await client.get(Secret, { namespace: "default", name: access.metadata.name ?? "" });
      const program = { ...pair, authorities };
      await publishCertificates(app, latest, { agent: pair, program, authorities, mode: "prefer" }, context);
    };
    const read = async () => ({
      authorities: (await client.get(ConfigMap, key)).data,
      secret: (await client.get(Secret, { ...key, name: "cache-tls" })).data?.["tls.crt"],
    });
    const foreignData = { "ca.crt": "of another" };
    await client.create(ConfigMap, { metadata: key, data: foreignData });
    await client.create(Secret, { metadata: { ...key, name: "cache-tls" } });
    await publish([], "one");
    expect(await read()).toEqual({ authorities: foreignData, secret: undefined });
    const found = [await client.get(ConfigMap, key), await client.get(Secret, { ...key, name: "cache-tls" })];
    await publish(found, "one");
    expect(await read()).toEqual({ authorities: foreignData, secret: undefined });

    await client.delete(ConfigMap, key);
    await client.delete(Secret, { ...key, name: "cache-tls" });
    await publish([], "one");
    expect((await read()).authorities).toEqual({ "ca.crt": "one" });
    const own = [await client.get(ConfigMap, key), await client.get(Secret, { ...key, name: "cache-tls" })];
    await publish(own, "two");
    expect((await read()).authorities).toEqual({ "ca.crt": "two" });
    // Another program replaces the object between the check and the write.
    await client.delete(ConfigMap, key);
    await client.create(ConfigMap, { metadata: key, data: foreignData });
    await publish(own, "three");
    expect((await read()).authorities).toEqual(foreignData);
  }, 60_000);
});
