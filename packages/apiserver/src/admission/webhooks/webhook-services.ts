import type { Authorizer } from "../../auth/rbac/rbac-authorizer.ts";
import type { ResourceTable, ServedResource } from "../../registry/served-resource.ts";
import type { Store } from "../../storage/store.ts";
import type { AdmissionRequest } from "../admission.ts";
import type { VersionedObjects } from "../matching/versioned-objects.ts";
import type { WebhookCaller } from "./webhook-caller.ts";
import type { WebhookSource } from "./webhook-source.ts";

/** What the webhooks of one type share. */
export interface WebhookServices {
  readonly source: Pick<WebhookSource, "webhooks">;
  readonly caller: Pick<WebhookCaller, "call">;
  readonly store: Pick<Store, "get">;
  readonly resources: Pick<ResourceTable, "list">;
  readonly authorizer: Pick<Authorizer, "authorize">;
  /** Returns the objects of a request in the version of `resource`. */
  readonly convert: (request: AdmissionRequest, resource: ServedResource) => Promise<VersionedObjects>;
}
