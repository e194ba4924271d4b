import type { RandomSource } from "../endpoints/random-source.ts";
import { listAt, textAt, valueAt } from "../registry/object-fields.ts";
import { type Endpoint, readyEndpoints } from "../registry/ready-endpoints.ts";
import { type Store, storageKey } from "../storage/store.ts";
import { WebhookError } from "./webhook-error.ts";
import type { WebhookService } from "./webhook-target.ts";

/** Returns an address of a Service. Throws a `WebhookError` if it has none. */
export type ResolveService = (service: WebhookService) => Endpoint;

const services = { group: "", plural: "services" };

/**
 * Resolves Services to one of their ready endpoints, as kube-apiserver does with `--enable-aggregator-routing`. This needs no service
 * proxy, so that it also works in test environments.
 */
export function createServiceResolver(store: Pick<Store, "get" | "list">, random: Pick<RandomSource, "below">): ResolveService {
  return ({ namespace, name, port }) => {
    const service = store.get(storageKey(services, namespace, name))?.object;
    if (service === undefined) throw new WebhookError("Unreachable", `service ${JSON.stringify(name)} not found`);
    const own = listAt(service, "spec", "ports").find((each) => valueAt(each, "port") === port);
    if (own === undefined) {
      throw new WebhookError("Unreachable", `no service port ${port} found for service ${JSON.stringify(name)}`);
    }
    if (textAt(service, "spec", "type") === "ExternalName") return { host: textAt(service, "spec", "externalName"), port };
    const ready = readyEndpoints(store, { namespace, name }, textAt(own, "name"));
    const chosen = ready[ready.length > 1 ? random.below(ready.length) : 0];
    if (chosen === undefined) {
      throw new WebhookError("Unreachable", `no endpoints available for service ${JSON.stringify(name)}`);
    }
    return chosen;
  };
}
