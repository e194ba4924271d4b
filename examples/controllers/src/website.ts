import { controllerReference, defineResource, type ObjectType, versionedCrd } from "@keelson/api-machinery";
import { ConfigMap } from "@keelson/api-machinery/kinds";
import { duplicateCause, forbiddenCause, type StatusCause } from "@keelson/api-machinery/validation";
import type { Client } from "@keelson/client";
import { type ControllerDefinition, createManager, defineController, type Manager } from "@keelson/controller";
import {
  type ConversionDefinition,
  createWebhooks,
  defineConversion,
  defineSpoke,
  defineWebhook,
  denied,
  type KindWebhooks,
  type WebhookContext,
  type WebhooksOptions,
} from "@keelson/controller/webhooks";
import { Type } from "typebox";

const names = {
  group: "example.com",
  kind: "Website",
  plural: "websites",
  description: "A site with its own host name.",
} as const;

/** A site. Its host is unique in the cluster. */
export const Website = defineResource({
  ...names,
  version: "v2",
  spec: Type.Object({
    host: Type.String({ minLength: 1, maxLength: 253 }),
    port: Type.Optional(Type.Integer({ minimum: 1, maximum: 65535 })),
  }),
});
export type Website = ObjectType<typeof Website>;

/** The first version: `address` is `host:port`. */
export const WebsiteV1 = defineResource({
  ...names,
  version: "v1",
  spec: Type.Object({ address: Type.String({ minLength: 1 }) }),
});

/** The definition of both versions. */
export const websiteCrd: (typeof Website)["crd"] = versionedCrd(Website, WebsiteV1);

/** Sets the port, and keeps hosts unique. */
const websiteWebhooks: KindWebhooks = defineWebhook({
  for: Website,
  default(website) {
    website.spec.host = website.spec.host.toLowerCase();
    website.spec.port ??= 443;
  },
  validate: {
    create: (website, context) => hostCauses(website.spec.host, context),
    update(website, old, { warn }) {
      if (website.spec.port !== old.spec.port) warn("changing the port restarts the site");
      return website.spec.host === old.spec.host ? [] : [forbiddenCause("spec.host", "cannot be changed")];
    },
    delete(website, { request }) {
      if (website.metadata.labels?.["example.com/protected"] === "true") {
        throw denied(`${request.name} is protected: remove the label example.com/protected first`);
      }
    },
  },
});

async function hostCauses(host: string, { client }: WebhookContext<Website>): Promise<StatusCause[]> {
  const { items } = await client.list(Website, {});
  return items.some(({ spec }) => spec.host === host) ? [duplicateCause("spec.host", host)] : [];
}

/** Converts between `address` and `host` with `port`. */
const websiteConversion: ConversionDefinition = defineConversion({
  hub: Website,
  spokes: [
    defineSpoke(WebsiteV1, Website, {
      toHub({ spec }) {
        const [host = "", port] = spec.address.split(":");
        return { spec: { host, ...(port === undefined ? {} : { port: Number(port) }) } };
      },
      fromHub: ({ spec }) => ({ spec: { address: spec.port === undefined ? spec.host : `${spec.host}:${spec.port}` } }),
    }),
  ],
});

/** Publishes the URL of each Website in a ConfigMap. */
const websites: ControllerDefinition = defineController({
  name: "websites",
  for: Website,
  owns: [ConfigMap],
  async reconcile({ namespace = "", name }, { cache, client }) {
    const website = cache.get(Website, { namespace, name });
    if (website === undefined || website.metadata.deletionTimestamp !== undefined) return;
    const { host, port = 443 } = website.spec;
    const metadata = { namespace, name: `website-${name}`, ownerReferences: [controllerReference(website)] };
    await client.apply(ConfigMap, { metadata, data: { url: `https://${host}:${port}` } });
  },
});

/** Creates the manager. `options` say how the API server reaches the webhooks. Default: at an address of this machine. */
export function createWebsiteManager(client: Client, options: WebhooksOptions = {}): Manager {
  const webhooks = createWebhooks({ webhooks: [websiteWebhooks], conversions: [websiteConversion], ...options });
  return createManager({ client, name: "websites", controllers: [websites], webhooks });
}
