import { parseApiVersion } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { StatusCause } from "@keelson/api-machinery/validation";
import type { AdmissionChain } from "../admission/admission.ts";
import type { ResourceTable, ServedResource } from "../registry/served-resource.ts";
import { type Store, storageKey } from "../storage/store.ts";
import type { PipelineRequest } from "./outcome.ts";
import type { RandomSource } from "./random-source.ts";
import type { ResourceRequestInfo } from "./request-info.ts";

/** What every endpoint works with. */
export interface EndpointContext {
  readonly store: Store;
  readonly resources: ResourceTable;
  readonly admission: AdmissionChain;
  readonly clock: Clock;
  readonly random: RandomSource;
}

/** A request on its way: authorized, its resource known. */
export interface Call extends EndpointContext {
  readonly request: PipelineRequest;
  readonly query: Readonly<Record<string, string | undefined>>;
  readonly info: ResourceRequestInfo;
  readonly resource: ServedResource;
  /** `""` for cluster-scoped kinds and across namespaces. */
  readonly namespace: string;
  /** Texts for the client, to be sent with the answer whatever it is. */
  readonly warnings: string[];
  /** What the schema found wrong when the object was conformed last; see `conform`. */
  readonly schemaFaults: { causes: readonly StatusCause[] };
}

/** The key of the object that the URL names. */
export function keyOf(call: Call, name: string = call.info.name): string {
  return storageKey(storageOf(call.resource), call.namespace, name);
}

/** What all keys of the URL's collection begin with. */
export function prefixOf({ resource, namespace }: Call): string {
  const storage = storageOf(resource);
  if (namespace !== "" || resource.scope === "Cluster") return storageKey(storage, namespace, "");
  return `${storage.group}/${storage.plural}/`;
}

/** Where a resource is stored: under the group of its storage version. */
function storageOf({ storageApiVersion, plural }: ServedResource): { readonly group: string; readonly plural: string } {
  return { group: parseApiVersion(storageApiVersion).group, plural };
}

/** Now as metadata has it: RFC 3339, whole seconds. */
export function timestamp(clock: Clock, offsetSeconds = 0): string {
  const second = Math.floor(clock.now() / 1000) + offsetSeconds;
  // Asked twice for each write, and the same for a whole second.
  if (second !== written.second) written = { second, text: `${new Date(second * 1000).toISOString().slice(0, 19)}Z` };
  return written.text;
}

let written = { second: 0, text: "1970-01-01T00:00:00Z" };
