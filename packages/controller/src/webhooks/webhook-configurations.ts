import type { KubernetesObject, ResourceType } from "@keelson/api-machinery";
import type { WebhookDefinition } from "./webhook-definition.ts";

/** A Service in front of the webhook server. */
export interface WebhookService {
  readonly namespace: string;
  readonly name: string;
  /** Default 443. */
  readonly port?: number;
}

/** How the API server reaches the webhooks. */
export type WebhookAddress = { readonly url: string } | { readonly service: WebhookService };

interface WebhookConfiguration extends KubernetesObject {
  webhooks?: Record<string, unknown>[];
}

interface ConvertedDefinition extends KubernetesObject {
  spec?: { conversion?: Record<string, unknown> };
}

const configuration = (type: "Mutating" | "Validating"): ResourceType<WebhookConfiguration> => ({
  group: "admissionregistration.k8s.io",
  version: "v1",
  kind: `${type}WebhookConfiguration`,
  plural: `${type.toLowerCase()}webhookconfigurations`,
  scope: "Cluster",
});

/** The kinds of the configurations, by type of webhook. */
export const configurationKinds = { mutating: configuration("Mutating"), validating: configuration("Validating") } as const;

/** CustomResourceDefinitions, of which only the conversion is written. */
export const definitionKind: ResourceType<ConvertedDefinition> = {
  group: "apiextensions.k8s.io",
  version: "v1",
  kind: "CustomResourceDefinition",
  plural: "customresourcedefinitions",
  scope: "Cluster",
};

/** The `webhooks` of a configuration. */
export function webhookEntries(
  definitions: readonly WebhookDefinition[],
  address: WebhookAddress,
  bundle: string,
): Record<string, unknown>[] {
  return definitions.map(({ name, path, rules, policies }) => ({
    sideEffects: "None",
    ...policies,
    name,
    rules: rules.map((rule) => ({ ...rule })),
    admissionReviewVersions: ["v1"],
    clientConfig: clientConfig(address, path, bundle),
  }));
}

/** A WebhookClientConfig. `bundle` is PEM. */
export function clientConfig(address: WebhookAddress, path: string, bundle: string): Record<string, unknown> {
  const caBundle = Buffer.from(bundle).toString("base64");
  if ("url" in address) return { url: `${address.url}${path}`, caBundle };
  const { namespace, name, port = 443 } = address.service;
  return { service: { namespace, name, port, path }, caBundle };
}
