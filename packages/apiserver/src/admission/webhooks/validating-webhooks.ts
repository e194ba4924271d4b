import type { ServedResource } from "../../registry/served-resource.ts";
import type { AdmissionRequest, AdmissionStep, AdmissionTarget } from "../admission.ts";
import { isAdmissionConfiguration, type Invocation, invocationOf } from "./invocation.ts";
import type { VersionedObjects } from "../matching/versioned-objects.ts";
import type { Webhook } from "./webhook.ts";
import { internalError } from "./webhook-caller.ts";
import type { WebhookServices } from "./webhook-services.ts";

/** Calls ValidatingWebhookConfigurations (admissionregistration/v1), all at the same time. */
export class ValidatingWebhooks implements AdmissionStep {
  readonly name = "ValidatingAdmissionWebhook";
  readonly #services: WebhookServices;

  constructor(services: WebhookServices) {
    this.#services = services;
  }

  appliesTo(target: AdmissionTarget): boolean {
    return !isAdmissionConfiguration(target);
  }

  review(request: AdmissionRequest): void | Promise<void> {
    const webhooks = this.#services.source.webhooks();
    if (webhooks.length > 0) return this.#review(request, webhooks);
  }

  async #review(request: AdmissionRequest, webhooks: readonly Webhook[]): Promise<void> {
    const converted = new Map<ServedResource, Promise<VersionedObjects>>();
    const versioned = (resource: ServedResource): Promise<VersionedObjects> => {
      let objects = converted.get(resource);
      if (objects === undefined) converted.set(resource, (objects = this.#versioned(request, resource)));
      return objects;
    };
    const invocations: { readonly invocation: Invocation; readonly objects: VersionedObjects }[] = [];
    for (const webhook of webhooks) {
      const invocation = await invocationOf(webhook, request, { ...this.#services, versioned });
      if (invocation !== undefined) invocations.push({ invocation, objects: await versioned(invocation.resource) });
    }
    const results = await Promise.allSettled(
      invocations.map(({ invocation, objects }) => this.#services.caller.call(invocation, request, objects)),
    );
    const rejected = results.find((result) => result.status === "rejected");
    if (rejected !== undefined) throw rejected.reason;
  }

  async #versioned(request: AdmissionRequest, resource: ServedResource): Promise<VersionedObjects> {
    try {
      return await this.#services.convert(request, resource);
    } catch (error) {
      throw internalError(error instanceof Error ? error.message : String(error));
    }
  }
}
