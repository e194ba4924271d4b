import { X509Certificate } from "node:crypto";
import {
  dns1035LabelFaults,
  dns1123SubdomainFaults,
  invalidCause,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import { objectAt, textAt, valueAt } from "./object-fields.ts";
import { type Causes, createRepeatCheck } from "./causes.ts";

/** Versions of AdmissionReview and ConversionReview that this server sends. */
export const acceptedReviewVersions: readonly string[] = ["v1", "v1beta1"];

/** Sets the defaults of a WebhookClientConfig in place. */
export function defaultClientConfig(clientConfig: unknown): void {
  const service = objectAt(clientConfig, "service");
  if (service !== undefined) service["port"] ??= 443;
}

/**
 * Validates a WebhookClientConfig (admissionregistration/v1, apiextensions/v1). With `isSwapped`, errors of a service's name and namespace
 * name the other field: kube-apiserver swaps them for conversion webhooks.
 */
export function* clientConfigCauses(
  clientConfig: unknown,
  path: string,
  { isSwapped = false }: { readonly isSwapped?: boolean } = {},
): Causes {
  const url = valueAt(clientConfig, "url");
  const service = valueAt(clientConfig, "service");
  if ((url === undefined) === (service === undefined)) {
    yield requiredCause(path, "exactly one of url or service is required");
    return;
  }
  yield* url === undefined ? serviceCauses(service, `${path}.service`, isSwapped) : urlCauses(String(url), `${path}.url`);
}

const form = "; desired format: https://host[/path]";

function urlCauses(text: string, path: string): StatusCause[] {
  if (text !== "" && !/^[^:/?#]*:/.test(text)) {
    return [
      invalidCause(path, "", `'https' is the only allowed URL scheme${form}`),
      ...(text.startsWith("//") ? [] : [invalidCause(path, "", `host must be specified${form}`)]),
    ];
  }
  if (text !== "" && !URL.canParse(text)) {
    const why = `parse ${JSON.stringify(text)}: invalid URL`;
    return [requiredCause(path, `url must be a valid URL: ${why}${form}`)];
  }
  const url = text === "" ? undefined : new URL(text);
  const hasHost = url !== undefined && !/^[^:]*:\/\/\//.test(text) && url.host !== "";
  const credentials = /^[^:]*:\/\/([^/?#@]*)@/.exec(text)?.[1] ?? "";
  const scheme = url?.protocol.slice(0, -1) ?? "";
  const [fragment, query] = [url?.hash.slice(1) ?? "", url?.search.slice(1) ?? ""];
  return [
    ...(scheme === "https" ? [] : [invalidCause(path, scheme, `'https' is the only allowed URL scheme${form}`)]),
    ...(hasHost ? [] : [invalidCause(path, "", `host must be specified${form}`)]),
    ...(credentials === "" ? [] : [invalidCause(path, credentials, "user information is not permitted in the URL")]),
    ...(fragment === "" ? [] : [invalidCause(path, fragment, "fragments are not permitted in the URL")]),
    ...(query === "" ? [] : [invalidCause(path, query, "query parameters are not permitted in the URL")]),
  ];
}

function* serviceCauses(service: unknown, path: string, isSwapped: boolean): Causes {
  const [ofName, ofNamespace] = isSwapped ? (["namespace", "name"] as const) : (["name", "namespace"] as const);
  const port = valueAt(service, "port");
  const isPort = typeof port === "number" && port >= 1 && port <= 65_535;
  yield* textAt(service, ofName) === "" ? [requiredCause(`${path}.name`)] : [];
  yield* textAt(service, ofNamespace) === "" ? [requiredCause(`${path}.namespace`)] : [];
  yield* isPort ? [] : [invalidCause(`${path}.port`, port, "port is not valid: must be between 1 and 65535, inclusive")];
  yield* pathCauses(textAt(service, "path"), `${path}.path`);
}

function* pathCauses(text: string, path: string): Causes {
  if (text === "" || text === "/") return;
  if (text === "//") {
    yield invalidCause(path, text, "segment[0] may not be empty");
    return;
  }
  yield* text.startsWith("/") ? [] : [invalidCause(path, text, "must start with a '/'")];
  const segments = text.slice(1).replace(/\/$/, "").split("/");
  for (const [index, segment] of segments.entries()) {
    yield;
    const faults = segment === "" ? [" may not be empty"] : dns1123SubdomainFaults(segment).map((fault) => `: ${fault}`);
    yield* faults.map((fault) => invalidCause(path, text, `segment[${index}]${fault}`));
  }
}

/** Validates a list of review versions. `missing` is the detail if it is empty. */
export function* reviewVersionCauses(versions: readonly unknown[], path: string, missing: string): Causes {
  if (versions.length === 0) {
    yield requiredCause(path, missing);
    return;
  }
  const isRepeated = createRepeatCheck();
  for (const [index, version] of versions.entries()) {
    yield;
    const at = `${path}[${index}]`;
    if (isRepeated(version)) yield invalidCause(at, version, "duplicate version");
    else yield* dns1035LabelFaults(String(version)).map((fault) => invalidCause(at, version, fault));
  }
  if (!versions.some((version) => acceptedReviewVersions.includes(String(version)))) {
    yield invalidCause(path, versions, `must include at least one of ${acceptedReviewVersions.join(", ")}`);
  }
}

/** Validates a PEM bundle, base64-encoded as in the object. */
export function caBundleCauses(bundle: unknown, path: string): StatusCause[] {
  if (typeof bundle !== "string" || bundle === "") return [];
  try {
    const pem = Buffer.from(bundle, "base64").toString();
    if (pem.trim() !== "") new X509Certificate(pem);
    return [];
  } catch {
    const why = "unable to load root certificates: unable to parse bytes as PEM block";
    return [invalidCause(path, bundle, why)];
  }
}
