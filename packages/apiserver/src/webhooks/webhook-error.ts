/**
 * Why a call of a webhook failed: it could not be reached, it did not respond in time, its response is not acceptable, or the client of
 * the API disconnected.
 */
export type WebhookErrorCode = "Unreachable" | "TimedOut" | "InvalidResponse" | "Aborted";

/** A failed call of a webhook, with the message of kube-apiserver. */
export class WebhookError extends Error {
  override readonly name = "WebhookError";
  readonly code: WebhookErrorCode;
  /** The HTTP status of the failure in metrics: that of the response, or 503. */
  readonly statusCode: number;

  constructor(code: WebhookErrorCode, message: string, options?: ErrorOptions & { readonly statusCode?: number }) {
    super(message, options);
    this.code = code;
    this.statusCode = options?.statusCode ?? 503;
  }
}
