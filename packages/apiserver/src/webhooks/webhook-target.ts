import { textAt, valueAt } from "../registry/object-fields.ts";

/** A Service that serves a webhook. */
export interface WebhookService {
  readonly namespace: string;
  readonly name: string;
  readonly port: number;
}

/** Where a webhook listens (WebhookClientConfig of admissionregistration/v1 and apiextensions/v1). */
export interface WebhookTarget {
  /** As errors show it: `https://name.namespace.svc:443/path` for a Service. */
  readonly url: URL;
  /** Undefined for a webhook with a URL. */
  readonly service: WebhookService | undefined;
  /** PEM of the authorities that may sign the webhook's certificate. Undefined: those of the system. */
  readonly authorities: string | undefined;
}

/** Reads a validated `clientConfig`. Returns undefined if it has neither a URL nor a Service. */
export function webhookTarget(clientConfig: unknown): WebhookTarget | undefined {
  const bundle = Buffer.from(textAt(clientConfig, "caBundle"), "base64").toString();
  const authorities = bundle.trim() === "" ? undefined : bundle;
  const url = textAt(clientConfig, "url");
  if (url !== "") return URL.canParse(url) ? { url: new URL(url), service: undefined, authorities } : undefined;
  const reference = valueAt(clientConfig, "service");
  if (reference === undefined) return undefined;
  const port = valueAt(reference, "port");
  const service: WebhookService = {
    namespace: textAt(reference, "namespace"),
    name: textAt(reference, "name"),
    port: typeof port === "number" ? port : 443,
  };
  const path = textAt(reference, "path");
  return { url: new URL(path === "" ? "/" : path, `https://${serviceHost(service)}`), service, authorities };
}

/** The host name in the certificate of a Service's webhook. */
export function serviceName({ namespace, name }: WebhookService): string {
  return `${name}.${namespace}.svc`;
}

function serviceHost(service: WebhookService): string {
  return `${serviceName(service)}:${service.port}`;
}

/** The URL of a call as Go prints it: with the port of a Service also if it is the default. */
export function printedUrl({ url, service }: WebhookTarget, timeoutMs: number | undefined): string {
  const host = service === undefined ? url.host : serviceHost(service);
  const timeout = timeoutMs === undefined ? "" : `?timeout=${Math.ceil(timeoutMs / 1000)}s`;
  const path = service === undefined && url.pathname === "/" ? "" : url.pathname;
  return `https://${host}${path}${timeout}`;
}
