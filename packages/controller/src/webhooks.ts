/* Admission and conversion webhooks of a manager. */
export type * from "./webhooks/admission-types.ts";
export { CertificateConflictError } from "./webhooks/certificate-manager.ts";
export { createWebhooks, MissingDefinitionError, type Webhooks, type WebhooksOptions } from "./webhooks/create-webhooks.ts";
export * from "./webhooks/define-conversion.ts";
export { defineWebhook } from "./webhooks/define-webhook.ts";
export { configurationKinds } from "./webhooks/webhook-configurations.ts";
export type { WebhookService } from "./webhooks/webhook-configurations.ts";
export { denied, DeniedError, type WebhookContext } from "./webhooks/webhook-context.ts";
export type * from "./webhooks/webhook-definition.ts";
