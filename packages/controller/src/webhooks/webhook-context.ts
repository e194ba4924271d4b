import type { KubernetesObject } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import type { Logger } from "../logging/logger.ts";
import type { AdmissionRequest } from "./admission-types.ts";

/** What a webhook's functions get in addition to the objects. */
export interface WebhookContext<T extends KubernetesObject = KubernetesObject> {
  readonly request: AdmissionRequest<T>;
  /** The manager's client. Its writes are not fenced by leader election: every replica serves webhooks. */
  readonly client: Client;
  readonly log: Logger;
  /** Aborted when the server stops. */
  readonly signal: AbortSignal;
  /** Adds a warning to the response. kubectl shows it to the user. At most 120 characters are useful. */
  warn(text: string): void;
  /** Adds an annotation to the audit event of the request. The server prefixes `key` with the webhook's name. */
  audit(key: string, value: string): void;
}

/** A webhook denies a request. */
export class DeniedError extends Error {
  override readonly name = "DeniedError";
  readonly code = "Denied";
}

/** Creates the error with which a validator denies a request: 403 with this message. */
export function denied(message: string): DeniedError {
  return new DeniedError(message);
}
