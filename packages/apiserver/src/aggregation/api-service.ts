import { isJsonObject, type JsonObject } from "@keelson/api-machinery";
import { listAt, textAt, valueAt } from "../registry/object-fields.ts";
import type { StoredObject } from "../storage/store.ts";
import type { WebhookService } from "../webhooks/webhook-target.ts";

/** An APIService whose requests go to a Service. */
export interface RemoteApi {
  readonly name: string;
  readonly group: string;
  readonly version: string;
  readonly groupPriority: number;
  readonly versionPriority: number;
  readonly service: WebhookService;
  /** PEM of the authorities that may sign the server's certificate. Undefined: those of the system. */
  readonly authorities: string | undefined;
  readonly skipsVerification: boolean;
  readonly isAvailable: boolean;
}

/** A condition of an APIService. */
export interface ApiServiceCondition {
  readonly status: "True" | "False" | "Unknown";
  readonly reason: string;
  readonly message: string;
}

/** Reads a validated APIService; undefined for a local one. */
export function remoteApi({ object }: StoredObject): RemoteApi | undefined {
  const spec = valueAt(object, "spec");
  const service = valueAt(spec, "service");
  if (service === undefined) return undefined;
  const bundle = Buffer.from(textAt(spec, "caBundle"), "base64").toString();
  return {
    name: object.metadata.name ?? "",
    group: textAt(spec, "group"),
    version: textAt(spec, "version"),
    groupPriority: Number(valueAt(spec, "groupPriorityMinimum")),
    versionPriority: Number(valueAt(spec, "versionPriority")),
    service: {
      namespace: textAt(service, "namespace"),
      name: textAt(service, "name"),
      port: Number(valueAt(service, "port") ?? 443),
    },
    authorities: bundle.trim() === "" ? undefined : bundle,
    skipsVerification: valueAt(spec, "insecureSkipTLSVerify") === true,
    isAvailable: availability(object)?.["status"] === "True",
  };
}

/** The `Available` condition. */
export function availability(object: unknown): JsonObject | undefined {
  return listAt(object, "status", "conditions")
    .filter(isJsonObject)
    .find((condition) => condition["type"] === "Available");
}

/** The conditions with `Available` set. `now` is the time of a transition. */
export function withAvailability(object: unknown, { status, reason, message }: ApiServiceCondition, now: string): JsonObject[] {
  const before = availability(object);
  const since = before?.["status"] === status ? (before["lastTransitionTime"] ?? now) : now;
  const others = listAt(object, "status", "conditions")
    .filter(isJsonObject)
    .filter((condition) => condition["type"] !== "Available");
  return [...others, { type: "Available", status, lastTransitionTime: since, reason, message }];
}
