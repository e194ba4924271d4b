import { request } from "node:https";
import { defineResource, type KubernetesObject, type ResourceType, statusError } from "@keelson/api-machinery";
import { createCertificateAuthority, issueCertificate, type KeyPair } from "@keelson/api-machinery/certificates";
import { ConfigMap, type ConfigMapObject, EndpointSlice, Secret, Service } from "@keelson/api-machinery/kinds";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { requiredCause } from "@keelson/api-machinery/validation";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { Type } from "typebox";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createManager } from "../manager/create-manager.ts";
import { createPrometheusMetrics } from "../metrics/prometheus-metrics.ts";
import { createWebhooks, type WebhooksOptions } from "./create-webhooks.ts";
import { defineConversion, defineSpoke } from "./define-conversion.ts";
import { defineWebhook } from "./define-webhook.ts";
import { configurationKinds } from "./webhook-configurations.ts";
import { denied } from "./webhook-context.ts";

let environment: TestEnvironment;
let client: Client;
beforeEach(async () => {
  environment = await startTestEnvironment();
  client = createClient({ transport: environment.transport(), fieldManager: "test" });
});
afterEach(() => environment.stop());

/** Runs webhooks until the returned value is disposed. */
async function run(options: WebhooksOptions, rest: object = {}) {
  const webhooks = createWebhooks(options);
  const manager = createManager({ client, name: "test", controllers: [], webhooks, ...rest });
  await manager.start();
  return { webhooks, manager, [Symbol.asyncDispose]: () => manager.stop() };
}

const namespace = "default";
const create = (name: string, data: Record<string, string> = {}): Promise<ConfigMapObject> =>
  client.create(ConfigMap, { metadata: { namespace, name }, data }) as Promise<ConfigMapObject>;

/** Sends a request to a webhook server without verifying its certificate. */
function call(
  port: number | undefined,
  method: string,
  path: string,
  body = "",
  own: Partial<KeyPair> = {},
): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const credentials = { cert: own.certificate, key: own.key };
    const sent = request({ port, host: "127.0.0.1", method, path, rejectUnauthorized: false, ...credentials }, (response) => {
      let text = "";
      response.on("data", (chunk: Buffer) => (text += chunk.toString()));
      response.on("end", () => resolve({ status: response.statusCode ?? 0, text }));
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

describe("a webhook", () => {
  it("sets defaults and validates creates, updates and deletes", async () => {
    const webhook = defineWebhook({
      for: ConfigMap,
      default(object) {
        object.data = { added: "yes", ...object.data };
      },
      validate: {
        create: (object) => (object.data?.["a"] === "" ? [requiredCause("data.a")] : undefined),
        update(object, old) {
          if (object.data?.["a"] !== old.data?.["a"]) throw denied("a cannot be changed");
        },
        delete(_old, { request: { name } }) {
          throw statusError("Conflict", `${name} is in use`);
        },
      },
    });
    await using _running = await run({ webhooks: [webhook] });
    expect((await create("one", { a: "1" })).data).toEqual({ added: "yes", a: "1" });
    await expect(create("two", { a: "" })).rejects.toThrow(
      'admission webhook "validate.configmaps.core" denied the request: ConfigMap "two" is invalid: data.a: Required value',
    );
    const patch = { type: "merge", body: { data: { a: "2" } } } as const;
    await expect(client.patch(ConfigMap, { namespace, name: "one" }, patch)).rejects.toMatchObject({
      status: { code: 403, reason: "Forbidden", message: expect.stringContaining("a cannot be changed") },
    });
    await expect(client.delete(ConfigMap, { namespace, name: "one" })).rejects.toMatchObject({
      status: { code: 409, reason: "Conflict" },
    });
  });

  it("answers a bug with 500 without its text, logs it and counts it", async () => {
    const logged: unknown[] = [];
    const logger = {
      debug() {},
      info() {},
      warn() {},
      error: (fields: object) => void logged.push(fields),
      child: () => logger,
    };
    const metrics = await createPrometheusMetrics();
    const webhook = defineWebhook({
      for: ConfigMap,
      validate: {
        create() {
          throw new TypeError("secret detail");
        },
      },
    });
    await using _running = await run({ webhooks: [webhook] }, { logger, metrics });
    await expect(create("one")).rejects.toMatchObject({
      status: {
        code: 500,
        message: 'admission webhook "validate.configmaps.core" denied the request: the webhook failed, see its log',
      },
    });
    expect(logged).toMatchObject([{ err: { message: "secret detail" } }]);
    const { text } = await metrics.scrape();
    expect(text).toContain("controller_runtime_webhook_panics_total 1");
    expect(text).toContain('controller_runtime_webhook_requests_total{webhook="/validate--v1-configmap",code="200"} 1');
  });

  it("handles requests of other resources with its own rules", async () => {
    const seen: string[] = [];
    const webhook = defineWebhook({
      for: ConfigMap,
      name: "all.example.com",
      rules: [{ operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["secrets"] }],
      mutateRequest({ object }) {
        if (object === undefined) return { allowed: true };
        return { allowed: true, patch: [{ op: "add", path: "/metadata/labels", value: { kind: object.kind } }] };
      },
      validateRequest({ resource, operation }) {
        seen.push(`${operation} ${resource.resource}`);
        return operation === "DELETE" ? { allowed: false, message: "kept" } : { allowed: true };
      },
    });
    await using _running = await run({ webhooks: [webhook] });
    const secret = await client.create(Secret, { metadata: { namespace, name: "s" } });
    expect(secret.metadata.labels).toEqual({ kind: "Secret" });
    await expect(client.delete(Secret, { namespace, name: "s" })).rejects.toThrow(
      '"validate.all.example.com" denied the request: kept',
    );
    expect(seen).toEqual(["CREATE secrets", "DELETE secrets"]);
  });

  it("is rejected if it does nothing, or the same in two ways", () => {
    const handle = () => ({ allowed: true }) as const;
    expect(() => defineWebhook({ for: ConfigMap })).toThrow(TypeError);
    expect(() => defineWebhook({ for: ConfigMap, default() {}, mutateRequest: handle })).toThrow(TypeError);
    expect(() => defineWebhook({ for: ConfigMap, validate: {}, validateRequest: handle })).toThrow(TypeError);
  });
});

describe("the configuration", () => {
  const webhooks = [
    defineWebhook({ for: ConfigMap, validate: { create: () => undefined }, failurePolicy: "Ignore", timeoutSeconds: 3 }),
  ];

  it("names the server's address and authority, and is restored when it is changed or deleted", async () => {
    await using running = await run({ webhooks });
    const read = () =>
      client.get(configurationKinds.validating, { name: "test" }).then(
        ({ webhooks: [hook] = [] }) => hook,
        () => undefined,
      );
    const applied = await read();
    expect(applied).toMatchObject({
      name: "validate.configmaps.core",
      clientConfig: { url: `https://127.0.0.1:${running.webhooks.port}/validate--v1-configmap` },
      failurePolicy: "Ignore",
      timeoutSeconds: 3,
      rules: [{ operations: ["CREATE"], apiGroups: [""], apiVersions: ["v1"], resources: ["configmaps"], scope: "Namespaced" }],
    });
    const operations = [{ op: "replace", path: "/webhooks/0/failurePolicy", value: "Fail" }] as const;
    await client.patch(configurationKinds.validating, { name: "test" }, { type: "json", operations });
    await expect.poll(read).toEqual(applied);
    await client.delete(configurationKinds.validating, { name: "test" });
    await expect.poll(read).toEqual(applied);
  });

  it("names the Service on a cluster, whose certificates are in a Secret", async () => {
    const service = { namespace, name: "hooks" };
    await using _running = await run({ webhooks, service, port: 0, host: "127.0.0.1" });
    const { webhooks: [hook] = [] } = await client.get(configurationKinds.validating, { name: "test" });
    expect(hook).toMatchObject({
      clientConfig: {
        service: { ...service, port: 443, path: expect.stringMatching(/^\/[0-9a-f]{64}\/validate--v1-configmap$/) },
      },
    });
    const secret = await client.get(Secret, { namespace, name: "hooks-certificates" });
    expect(Object.keys(secret.data ?? {}).sort()).toEqual(["ca.crt", "ca.key", "tls.crt", "tls.key"]);
  });

  it("behind a Service rejects reviews without the key of the registered path", async () => {
    const service = { namespace, name: "hooks" };
    await using running = await run({ webhooks, service, port: 0, host: "127.0.0.1" });
    const { port } = running.webhooks;
    const { webhooks: [hook] = [] } = await client.get(configurationKinds.validating, { name: "test" });
    const configured = hook?.["clientConfig"] as { readonly service?: { readonly path: string } } | undefined;
    const path = configured?.service?.path ?? expect.fail("the webhook has no path");
    const rejected = { status: 401, text: "the path under which the webhook is registered is required\n" };
    expect(await call(port, "GET", "/healthz")).toMatchObject({ status: 200 });
    for (const other of ["/validate--v1-configmap", `/${"0".repeat(64)}/validate--v1-configmap`])
      expect(await call(port, "POST", other, "{}")).toEqual(rejected);
    expect(await call(port, "POST", path, "{}")).toMatchObject({ status: 400 });
  });

  it("is called through the Service by its name", async () => {
    const service = { namespace, name: "hooks" };
    const webhook = defineWebhook({ for: ConfigMap, default: (object) => void (object.data = { a: "1" }) });
    await using running = await run({ webhooks: [webhook], service, port: 0, host: "127.0.0.1" });
    await expect(create("early")).rejects.toThrow('service "hooks" not found');
    await client.create(Service, { metadata: service, spec: { ports: [{ port: 443 }] } });
    await client.create(EndpointSlice, {
      metadata: { namespace, name: "hooks-1", labels: { "kubernetes.io/service-name": "hooks" } },
      addressType: "IPv4",
      ports: [{ name: "", port: running.webhooks.port ?? 0 }],
      endpoints: [{ addresses: ["127.0.0.1"] }],
    });
    expect((await create("late")).data).toEqual({ a: "1" });
  });

  it("follows a renewed certificate, and the API server keeps calling", async () => {
    const clock = createVirtualClock(Date.now());
    await using _running = await run(
      { webhooks: [defineWebhook({ for: ConfigMap, default: (object) => void (object.data = { a: "1" }) })] },
      { clock },
    );
    expect((await create("before")).data).toEqual({ a: "1" });
    const bundle = async (): Promise<unknown> =>
      (await client.get(configurationKinds.mutating, { name: "test" })).webhooks?.[0]?.["clientConfig"];
    const before = await bundle();
    await clock.advance(61 * 24 * 60 * 60 * 1000);
    await expect.poll(async () => (await create(`after-${Math.random().toString(36).slice(2)}`)).data).toEqual({ a: "1" });
    expect(await bundle()).toEqual(before);
  });
});

describe("conversion", () => {
  const kind = { group: "example.com", kind: "Lamp", plural: "lamps", description: "A lamp." } as const;
  const LampV2 = defineResource({ ...kind, version: "v2", spec: Type.Object({ watts: Type.Integer() }) });
  const LampV1 = defineResource({ ...kind, version: "v1", spec: Type.Object({ power: Type.String() }) });
  const conversion = defineConversion({
    hub: LampV2,
    spokes: [
      defineSpoke(LampV1, LampV2, {
        toHub: ({ spec }) => ({ spec: { watts: Number.parseInt(spec.power, 10) } }),
        fromHub: ({ spec }) => ({ spec: { power: `${spec.watts} W` } }),
      }),
    ],
  });
  const lamp = {
    apiVersion: "example.com/v1",
    kind: "Lamp",
    metadata: { name: "a", labels: { b: "c" } },
    spec: { power: "5 W" },
  };

  it("converts between spokes and the hub and keeps metadata", () => {
    const atHub = conversion.convert(lamp, "example.com/v2");
    expect(atHub).toEqual({ apiVersion: "example.com/v2", kind: "Lamp", metadata: lamp.metadata, spec: { watts: 5 } });
    expect(conversion.convert(atHub, "example.com/v1")).toEqual(lamp);
    expect(() => conversion.convert(lamp, "example.com/v3")).toThrow("Lamp: version example.com/v3 is not defined");
  });

  it("rejects spokes of other kinds and repeated versions", () => {
    const other: ResourceType<KubernetesObject> = { ...LampV1, kind: "Other" };
    const functions = { toHub: () => ({ spec: { watts: 1 } }), fromHub: () => ({}) };
    expect(() => defineConversion({ hub: LampV2, spokes: [defineSpoke(other, LampV2, functions)] })).toThrow(TypeError);
    const twice = { ...functions, fromHub: () => ({ spec: { power: "" } }) };
    const spoke = defineSpoke(LampV1, LampV2, twice);
    expect(() => defineConversion({ hub: LampV2, spokes: [spoke, spoke] })).toThrow(TypeError);
  });

  it("fails to start if the CustomResourceDefinition is not installed", async () => {
    const webhooks = createWebhooks({ conversions: [conversion] });
    const manager = createManager({ client, name: "test", controllers: [], webhooks });
    await expect(manager.start()).rejects.toThrow('CustomResourceDefinition "lamps.example.com" not found');
    await manager.stop();
  });
});

describe("the server", () => {
  it("answers probes, and rejects what is not a review", async () => {
    await using running = await run({ webhooks: [defineWebhook({ for: ConfigMap, default() {} })] });
    const { port } = running.webhooks;
    const path = "/mutate--v1-configmap";
    expect(await call(port, "GET", "/healthz")).toEqual({ status: 200, text: "ok\n" });
    expect(await call(port, "GET", "/readyz")).toMatchObject({ status: 200 });
    expect(await call(port, "POST", "/other", "{}")).toMatchObject({ status: 404 });
    expect(await call(port, "POST", "/convert", "{}")).toMatchObject({ status: 404 });
    expect(await call(port, "GET", path)).toMatchObject({ status: 405 });
    expect(await call(port, "POST", path, "{")).toEqual({ status: 400, text: "the body must be JSON\n" });
    expect(await call(port, "POST", path, "{}")).toMatchObject({ status: 400 });
    expect(await call(port, "POST", path, `"${"x".repeat(7 * 1024 * 1024)}"`)).toMatchObject({ status: 413 });
  });

  it("accepts reviews only from the API server if it knows the authority of its certificate", async () => {
    const dates = [new Date(Date.now() - 1_000), new Date(Date.now() + 60_000)] as const;
    const issue = async () => {
      const authority = await createCertificateAuthority("test", ...dates);
      const leaf = { commonName: "api", usage: "client", notBefore: dates[0], notAfter: dates[1] } as const;
      return { authority: authority.certificate, own: await issueCertificate(authority, leaf) };
    };
    const [api, stranger] = [await issue(), await issue()];
    let reviews = 0;
    const webhook = defineWebhook({ for: ConfigMap, default: () => void (reviews += 1) });
    await using running = await run({ webhooks: [webhook], clientAuthority: api.authority });
    const { port } = running.webhooks;
    const path = "/mutate--v1-configmap";
    expect(await call(port, "GET", "/healthz")).toMatchObject({ status: 200 });
    const rejected = { status: 401, text: "a client certificate of the API server is required\n" };
    expect(await call(port, "POST", path, "{}")).toEqual(rejected);
    expect(await call(port, "POST", path, "{}", stranger.own)).toEqual(rejected);
    expect(await call(port, "POST", path, "{}", api.own)).toMatchObject({ status: 400 });
    await expect(create("one")).rejects.toThrow("the server has asked for the client to provide credentials");
    await using configured = await startTestEnvironment({ webhookCertificate: () => api.own });
    client = createClient({ transport: configured.transport(), fieldManager: "test" });
    await using _called = await run({ webhooks: [webhook], clientAuthority: api.authority });
    await create("two");
    expect(reviews).toBe(1);
  });
});
