import { isStatusError, StatusError, type Status, statusError } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import { badRequest } from "../../endpoints/errors.ts";
import type { WebhookClient } from "../../webhooks/webhook-client.ts";
import { WebhookError } from "../../webhooks/webhook-error.ts";
import type { AdmissionRequest } from "../admission.ts";
import { type AdmissionResponse, admissionReview, readAdmissionResponse, reviewVersion } from "./admission-review.ts";
import type { Invocation } from "./invocation.ts";
import type { VersionedObjects } from "../matching/versioned-objects.ts";
import type { WebhookMetrics, WebhookObservation } from "./webhook-metrics.ts";

/** What {@link WebhookCaller} takes. */
export interface WebhookCallerOptions {
  readonly type: WebhookObservation["type"];
  readonly client: Pick<WebhookClient, "post">;
  readonly metrics: WebhookMetrics;
  readonly clock: Pick<Clock, "monotonic">;
  readonly newId: () => string;
}

/** Calls webhooks of one type and applies their failure policies. */
export class WebhookCaller {
  readonly #options: WebhookCallerOptions;

  constructor(options: WebhookCallerOptions) {
    this.#options = options;
  }

  /**
   * Calls a webhook. Returns undefined if the call fails and the failure policy is `Ignore`.
   *
   * **Errors**: a `StatusError`: the webhook's own if it denies the request, `InternalError` if the call fails, `BadRequest` if the webhook
   * has side effects and the request is a dry run.
   */
  async call(
    invocation: Invocation,
    request: AdmissionRequest,
    objects: VersionedObjects,
  ): Promise<AdmissionResponse | undefined> {
    const { webhook } = invocation;
    if (request.isDryRun && !webhook.supportsDryRun) {
      throw badRequest(`admission webhook ${JSON.stringify(webhook.name)} does not support dry run`);
    }
    const started = this.#options.clock.monotonic();
    const observe = (code: number, outcome: WebhookObservation["outcome"]): void => {
      const durationMs = this.#options.clock.monotonic() - started;
      const { type, metrics } = this.#options;
      metrics.observe({ name: webhook.name, type, operation: request.operation, durationMs, code, outcome });
    };
    let response: AdmissionResponse;
    try {
      response = await this.#post(invocation, request, objects);
    } catch (error) {
      if (!(error instanceof WebhookError)) throw error;
      observe(error.statusCode, webhook.ignoresFailures ? "failed-open" : "failed-closed");
      if (webhook.ignoresFailures && error.code !== "Aborted") return undefined;
      throw internalError(`failed calling webhook ${JSON.stringify(webhook.name)}: ${error.message}`);
    }
    for (const [key, value] of Object.entries(response.auditAnnotations)) request.annotate?.(`${webhook.name}/${key}`, value);
    for (const warning of response.warnings) request.warn(warning);
    if (response.isAllowed) {
      observe(200, "allowed");
      return response;
    }
    const denial = denied(webhook.name, response.status ?? {});
    observe(denial.code, "denied");
    throw denial;
  }

  async #post(
    { webhook, resource }: Invocation,
    request: AdmissionRequest,
    objects: VersionedObjects,
  ): Promise<AdmissionResponse> {
    const { target, timeoutMs } = webhook;
    const version = reviewVersion(webhook.reviewVersions);
    if (version === undefined) {
      const why = "webhook does not accept known AdmissionReview versions (v1, v1beta1)";
      throw new WebhookError("InvalidResponse", `could not create admission objects: ${why}`, { statusCode: 400 });
    }
    if (target === undefined) {
      const why = "webhook configuration must have either service or URL";
      throw new WebhookError("InvalidResponse", `could not get REST client: ${why}`, { statusCode: 500 });
    }
    const uid = this.#options.newId();
    const review = admissionReview(version, uid, request, resource, objects);
    const received = await this.#send(() => this.#options.client.post(target, review, { timeoutMs, signal: request.signal }));
    return readAdmissionResponse(version, uid, this.#options.type === "admit", received);
  }

  async #send(post: () => Promise<unknown>): Promise<unknown> {
    try {
      return await post();
    } catch (error) {
      if (!(error instanceof WebhookError)) throw error;
      const { code, statusCode, message } = error;
      throw new WebhookError(code, `failed to call webhook: ${message}`, { cause: error, statusCode });
    }
  }
}

/** An error of kube-apiserver's own (500). */
export function internalError(message: string): StatusError {
  return statusError("InternalError", `Internal error occurred: ${message}`, { causes: [{ message }] });
}

/** What patches of clients are rejected with; a webhook's patch is not the client's. */
const patchRefusal = /^the server rejected our request due to an error in our request: /;

/** Converts an unexpected failure after a webhook's response into an {@link internalError}. */
export function asInternalError(error: unknown): StatusError {
  if (isStatusError(error, "InternalError")) return error;
  const message = error instanceof Error ? error.message : String(error);
  return internalError(message.replace(patchRefusal, ""));
}

/** The status of a denial: as sent, but a failure with a code of at least 400, and a message that names the webhook. */
function denied(name: string, { code = 0, message = "", reason = "", details, metadata }: Partial<Status>): StatusError {
  const why = message || reason;
  const subject = `admission webhook ${JSON.stringify(name)} denied the request`;
  return new StatusError({
    kind: "Status",
    apiVersion: "v1",
    metadata: metadata ?? {},
    status: "Failure",
    message: why === "" ? `${subject} without explanation` : `${subject}: ${why}`,
    ...(reason === "" ? {} : { reason }),
    ...(details === undefined ? {} : { details }),
    code: code < 400 ? 400 : code,
  });
}
