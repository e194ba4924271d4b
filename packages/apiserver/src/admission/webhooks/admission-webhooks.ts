import { draft } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Authorizer } from "../../auth/rbac/rbac-authorizer.ts";
import { convertObject } from "../../endpoints/object/convert-object.ts";
import type { ResourceTable, ServedResource } from "../../registry/served-resource.ts";
import type { Store } from "../../storage/store.ts";
import type { WebhookClient } from "../../webhooks/webhook-client.ts";
import type { AdmissionRequest, AdmissionStep } from "../admission.ts";
import { type VersionedObjects, versionedObjects } from "../matching/versioned-objects.ts";
import { MutatingWebhooks } from "./mutating-webhooks.ts";
import { ValidatingWebhooks } from "./validating-webhooks.ts";
import { WebhookCaller } from "./webhook-caller.ts";
import type { WebhookMetrics } from "./webhook-metrics.ts";
import { WebhookSource } from "./webhook-source.ts";

/** What {@link createAdmissionWebhooks} takes. */
export interface AdmissionWebhooksOptions {
  readonly store: Pick<Store, "get" | "list" | "watch" | "revision">;
  readonly resources: Pick<ResourceTable, "list" | "get">;
  readonly authorizer: Pick<Authorizer, "authorize">;
  readonly client: Pick<WebhookClient, "post">;
  readonly clock: Pick<Clock, "monotonic">;
  readonly newId: () => string;
  readonly metrics: WebhookMetrics;
}

/** The admission steps that call webhooks. */
export interface AdmissionWebhooks {
  readonly mutating: AdmissionStep;
  readonly validating: AdmissionStep;
  close(): void;
}

/** Creates the steps for the webhook configurations in the store. */
export function createAdmissionWebhooks(options: AdmissionWebhooksOptions): AdmissionWebhooks {
  const { store, resources, authorizer, client, clock, newId, metrics } = options;
  const mutating = new WebhookSource(store, "mutatingwebhookconfigurations");
  const validating = new WebhookSource(store, "validatingwebhookconfigurations");
  const convert = (request: AdmissionRequest, resource: ServedResource): Promise<VersionedObjects> =>
    versionedObjects(request, resource, resources);
  const shared = { store, resources, authorizer, convert };
  const calls = { client, metrics, clock, newId };
  return {
    mutating: new MutatingWebhooks({
      ...shared,
      source: mutating,
      caller: new WebhookCaller({ ...calls, type: "admit" }),
      convertBack: async (request, object, from) => draft(await convertObject(object, from, request.resource, resources)),
    }),
    validating: new ValidatingWebhooks({
      ...shared,
      source: validating,
      caller: new WebhookCaller({ ...calls, type: "validating" }),
    }),
    close() {
      mutating.close();
      validating.close();
    },
  };
}
