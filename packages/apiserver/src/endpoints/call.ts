import { parseApiVersion } from "@keelson/api-machinery";
import { type Clock, formatTime } from "@keelson/api-machinery/time";
import type { StatusCause } from "@keelson/api-machinery/validation";
import type { AdmissionChain } from "../admission/admission.ts";
import type { ResourceTable, ServedResource } from "../registry/served-resource.ts";
import { type Store, storageKey } from "../storage/store.ts";
import type { PipelineRequest } from "./outcome.ts";
import type { RandomSource } from "./random-source.ts";
import type { SharedEvents } from "./read/shared-events.ts";
import type { SharedTurns } from "./read/shared-turns.ts";
import type { ResourceRequestInfo } from "./request-info.ts";
import type { Warnings } from "./warnings.ts";

/** Services shared by all endpoints. */
export interface EndpointContext {
  readonly store: Store;
  readonly resources: ResourceTable;
  readonly admission: AdmissionChain;
  readonly clock: Clock;
  readonly random: RandomSource;
}

/** An authorized request whose resource is known. */
export interface Call extends EndpointContext {
  readonly request: PipelineRequest;
  readonly query: Readonly<Record<string, string | undefined>>;
  readonly info: ResourceRequestInfo;
  readonly resource: ServedResource;
  /** `""` for cluster-scoped kinds and for requests across namespaces. */
  readonly namespace: string;
  /** Size of the larger of the request's body and the stored object. Large ones are handled in several turns of the event loop. */
  readonly load: { bytes: number };
  readonly timestamps: Timestamps;
  /** For slices of long reads. */
  readonly turns: SharedTurns;
  /** For watches. */
  readonly sharedEvents: SharedEvents;
  /** Warnings sent with the response, including failures. */
  readonly warnings: Warnings;
  /** Functions to call when the call has ended, before its response is sent. */
  readonly ends: Ends;
  /** Schema violations found by the last `normalizeObject`. */
  readonly schemaErrors: { causes: readonly StatusCause[] };
}

/** Functions to call at the end of something. */
export class Ends {
  #functions: (() => void)[] | undefined;

  add(end: () => void): void {
    this.#functions ??= [];
    this.#functions.push(end);
  }

  /** Calls them, each once. */
  run(): void {
    const functions = this.#functions;
    this.#functions = undefined;
    for (const end of functions ?? []) end();
  }
}

/** Storage key of the object in the URL. */
export function keyOf(call: Call, name: string = call.info.name): string {
  return storageKey(storageOf(call.resource), call.namespace, name);
}

/** Common prefix of all keys in the URL's collection. */
export function prefixOf({ resource, namespace }: Call): string {
  const storage = storageOf(resource);
  if (namespace !== "" || resource.scope === "Cluster") return storageKey(storage, namespace, "");
  return `${storage.group}/${storage.plural}/`;
}

/** Objects are stored under the group of their storage version. */
function storageOf({ storageApiVersion, plural }: ServedResource): { readonly group: string; readonly plural: string } {
  return { group: parseApiVersion(storageApiVersion).group, plural };
}

/** The time as metadata writes it: RFC 3339 in whole seconds. */
export class Timestamps {
  readonly #clock: Pick<Clock, "now">;
  /** The last text: all writes of a second share it. */
  #written = { second: Number.NaN, text: "" };

  constructor(clock: Pick<Clock, "now">) {
    this.#clock = clock;
  }

  /** The current time plus `offsetSeconds`. */
  now(offsetSeconds = 0): string {
    const second = Math.floor(this.#clock.now() / 1000) + offsetSeconds;
    if (this.#written.second !== second) {
      this.#written = { second, text: formatTime(second * 1000) };
    }
    return this.#written.text;
  }
}
