import { draft, jsonEquals, type KubernetesObject } from "@keelson/api-machinery";
import { jsonPatch } from "@keelson/api-machinery/patch";
import type { ServedResource } from "../../registry/served-resource.ts";
import type { AdmissionRequest, AdmissionStep, AdmissionTarget, Mutation, MutationResult } from "../admission.ts";
import { Reinvocations } from "../reinvocations.ts";
import { isAdmissionConfiguration, type Invocation, invocationOf } from "./invocation.ts";
import type { VersionedObjects } from "../matching/versioned-objects.ts";
import type { Webhook } from "./webhook.ts";
import { asInternalError, internalError } from "./webhook-caller.ts";
import type { WebhookServices } from "./webhook-services.ts";

/** What mutating webhooks take: the patched object is converted back. */
export interface MutatingWebhookServices extends WebhookServices {
  /** Returns `object`, which is in the version of `from`, in the version of the request. */
  readonly convertBack: (
    request: AdmissionRequest,
    object: KubernetesObject,
    from: ServedResource,
  ) => Promise<KubernetesObject>;
}

/** Calls MutatingWebhookConfigurations (admissionregistration/v1), one after the other, and applies their patches. */
export class MutatingWebhooks implements AdmissionStep {
  readonly name = "MutatingAdmissionWebhook";
  readonly #services: MutatingWebhookServices;

  constructor(services: MutatingWebhookServices) {
    this.#services = services;
  }

  appliesTo(target: AdmissionTarget): boolean {
    return !isAdmissionConfiguration(target);
  }

  beginMutation(request: AdmissionRequest): Mutation | undefined {
    const webhooks = this.#services.source.webhooks();
    return webhooks.length === 0 ? undefined : new WebhookMutation(this.#services, request, webhooks);
  }
}

class WebhookMutation implements Mutation {
  readonly #services: MutatingWebhookServices;
  readonly #request: AdmissionRequest;
  readonly #webhooks: readonly Webhook[];
  readonly #reinvocations = new Reinvocations();

  constructor(services: MutatingWebhookServices, request: AdmissionRequest, webhooks: readonly Webhook[]) {
    this.#services = services;
    this.#request = request;
    this.#webhooks = webhooks;
  }

  async run(isReinvocation: boolean): Promise<MutationResult> {
    this.#reinvocations.begin(isReinvocation, this.#request.object);
    let isChanged = false;
    for (const [index, webhook] of this.#webhooks.entries()) {
      const versioned = (resource: ServedResource): Promise<VersionedObjects> => this.#versioned(resource);
      const invocation = await invocationOf(webhook, this.#request, { ...this.#services, versioned });
      if (invocation === undefined || !this.#reinvocations.includes(webhook.id)) continue;
      const hasChanged = await this.#invoke(invocation, index, isReinvocation ? 1 : 0);
      if (hasChanged) this.#reinvocations.changed();
      if (webhook.isReinvocable) this.#reinvocations.invoked(webhook.id);
      isChanged ||= hasChanged;
    }
    this.#reinvocations.end(this.#request.object);
    return { isChanged, needsReinvocation: isChanged };
  }

  async #invoke(invocation: Invocation, index: number, round: number): Promise<boolean> {
    const { webhook, resource } = invocation;
    const objects = await this.#versioned(resource);
    const response = await this.#services.caller.call(invocation, this.#request, objects);
    const label = `round_${round}_index_${index}`;
    if (response === undefined) {
      this.#request.annotate?.(`failed-open.mutation.webhook.admission.k8s.io/${label}`, webhook.name);
      return false;
    }
    const isChanged = response.patch.length > 0 && (await this.#apply(invocation, response.patch, objects));
    const { configuration, name } = webhook;
    const mutation = JSON.stringify({ configuration, webhook: name, mutated: isChanged });
    this.#request.annotate?.(`mutation.webhook.admission.k8s.io/${label}`, mutation);
    return isChanged;
  }

  async #apply({ webhook, resource }: Invocation, patch: readonly unknown[], { object }: VersionedObjects): Promise<boolean> {
    const request = this.#request;
    if (object === undefined) {
      const subject = `admission webhook ${JSON.stringify(webhook.name)}`;
      throw internalError(`${subject} attempted to modify the object, which is not supported for this operation`);
    }
    try {
      const patched = jsonPatch(draft(object), patch) as KubernetesObject;
      if (jsonEquals(patched, object)) return false;
      const converted = await this.#services.convertBack(request, patched, resource);
      request.object = (await request.normalize?.(converted)) ?? converted;
      return true;
    } catch (error) {
      throw asInternalError(error);
    }
  }

  async #versioned(resource: ServedResource): Promise<VersionedObjects> {
    try {
      return await this.#services.convert(this.#request, resource);
    } catch (error) {
      throw asInternalError(error);
    }
  }
}
