import { isJsonObject, parseApiVersion, type ResourceType } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Transport } from "@keelson/api-machinery/transport";
import { builtInKind } from "../watching/resource-mapper.ts";

/** Delay before an API version that does not serve a kind, or could not be read, is read again. */
const retryMs = 2_000;
/** Maximum number of API versions that are remembered. */
const maxVersions = 200;

/** What is known about an API version. `unread` may be read now; `held` may be read again later. */
interface Version {
  readonly kinds: ReadonlyMap<string, ResourceType>;
  readonly state: "unread" | "reading" | "held";
}

const unread: Version = { kinds: new Map(), state: "unread" };

/** Options of {@link KindDiscovery}. */
export interface KindDiscoveryOptions {
  readonly transport: Transport;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Called when an API version has been read, or may be read again. */
  readonly onChange: () => void;
}

/**
 * Maps the kinds of a cluster to resources. Built-in kinds are known; others are discovered when they are first asked for. While a kind is
 * asked for that its API version does not have, the version is read again every 2 s.
 */
export class KindDiscovery {
  readonly #options: KindDiscoveryOptions;
  readonly #versions = new Map<string, Version>();

  constructor(options: KindDiscoveryOptions) {
    this.#options = options;
  }

  /** The resource of a kind; undefined if the cluster does not serve it, or has not answered yet. */
  resourceOf(apiVersion: string, kind: string): ResourceType | undefined {
    const builtIn = builtInKind(apiVersion, kind);
    if (builtIn !== undefined) return builtIn;
    const { kinds, state } = this.#versions.get(apiVersion) ?? unread;
    const type = kinds.get(kind);
    if (type === undefined && state === "unread") void this.#read(apiVersion, kinds);
    return type;
  }

  /** Reads API versions now. **Errors**: rejects if the cluster cannot be reached. */
  async read(apiVersions: readonly string[]): Promise<void> {
    for (const apiVersion of new Set(apiVersions)) {
      this.#versions.set(apiVersion, { kinds: await this.#request(apiVersion), state: "unread" });
    }
  }

  async #read(apiVersion: string, before: Version["kinds"]): Promise<void> {
    const { signal, clock, onChange } = this.#options;
    if (this.#versions.size >= maxVersions) this.#versions.clear();
    this.#versions.set(apiVersion, { kinds: before, state: "reading" });
    // A cluster that cannot be reached is asked again later, as if it did not serve the kind.
    const kinds = await this.#request(apiVersion).catch(() => before);
    if (signal.aborted) return;
    this.#versions.set(apiVersion, { kinds, state: "held" });
    onChange();
    const release = (): void => {
      this.#versions.set(apiVersion, { kinds, state: "unread" });
      onChange();
    };
    const timer = clock.setTimer(retryMs, release, { background: true });
    signal.addEventListener("abort", () => timer.cancel(), { once: true });
  }

  /** The kinds of an API version, which has none if it is not served. **Errors**: rejects if the cluster does not respond with them. */
  async #request(apiVersion: string): Promise<Version["kinds"]> {
    const { transport, signal } = this.#options;
    const { group, version } = parseApiVersion(apiVersion);
    const path = group === "" ? `/api/${version}` : `/apis/${encodeURIComponent(group)}/${encodeURIComponent(version)}`;
    const { status, body } = await transport.request({ method: "GET", path, signal });
    if (status === 404) return new Map();
    if (status !== 200) throw new DiscoveryError(`GET ${path}: status ${status}`);
    return kindsOf(body, group, version);
  }
}

/** A cluster does not describe its API. */
class DiscoveryError extends Error {
  override readonly name = "DiscoveryError";
  readonly code = "Discovery";
}

/** The kinds of an APIResourceList. Entries that are malformed, and subresources, are skipped. */
function kindsOf(list: unknown, group: string, version: string): ReadonlyMap<string, ResourceType> {
  const kinds = new Map<string, ResourceType>();
  const resources = isJsonObject(list) ? list["resources"] : undefined;
  for (const resource of Array.isArray(resources) ? resources : []) {
    if (!isJsonObject(resource)) continue;
    const { name, kind, namespaced } = resource;
    if (typeof name !== "string" || typeof kind !== "string" || !/^[a-z0-9.-]+$/.test(name)) continue;
    kinds.set(kind, { group, version, kind, plural: name, scope: namespaced === true ? "Namespaced" : "Cluster" });
  }
  return kinds;
}
