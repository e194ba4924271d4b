import { listAt, textAt, valueAt } from "../registry/object-fields.ts";
import { type Endpoint, readyEndpoints } from "../registry/ready-endpoints.ts";
import { type Store, storageKey } from "../storage/store.ts";
import { networkErrorText } from "../webhooks/network-error.ts";
import type { ApiServiceCondition, RemoteApi } from "./api-service.ts";

/** What {@link checkAvailability} takes. */
export interface AvailabilityOptions {
  readonly store: Pick<Store, "get" | "list">;
  /** Returns an address of the API's Service, chosen at random. */
  readonly resolve: (api: RemoteApi) => Endpoint;
  /** Returns the HTTP status of a document of the API's server. */
  readonly fetchStatus: (endpoint: Endpoint, path: string) => Promise<number>;
}

const maxAttempts = 5;

/** Decides the `Available` condition of an APIService with kube-aggregator's checks: Service, port, endpoints, discovery. */
export async function checkAvailability(api: RemoteApi, options: AvailabilityOptions): Promise<ApiServiceCondition> {
  const { store } = options;
  const { namespace, name, port } = api.service;
  const subject = `service/${name} in ${JSON.stringify(namespace)}`;
  const service = store.get(storageKey({ group: "", plural: "services" }, namespace, name))?.object;
  if (service === undefined) return unavailable("ServiceNotFound", `${subject} is not present`);
  let attempts = 1;
  if (textAt(service, "spec", "type") === "ClusterIP") {
    const own = listAt(service, "spec", "ports").find((each) => valueAt(each, "port") === port);
    if (own === undefined) return unavailable("ServicePortError", `${subject} is not listening on port ${port}`);
    if (!hasSlices(store, namespace, name)) {
      return unavailable("EndpointsNotFound", `cannot find endpointslices for ${subject}`);
    }
    const portName = textAt(own, "name");
    const endpoints = readyEndpoints(store, { namespace, name }, portName);
    if (endpoints.length === 0) {
      const why = `endpointslices for ${subject} have no addresses with port name ${JSON.stringify(portName)}`;
      return unavailable("MissingEndpoints", why);
    }
    attempts = Math.min(endpoints.length, maxAttempts);
  }
  const failures = await Promise.all(Array.from({ length: attempts }, () => discoveryFailure(api, options)));
  const failure = failures.includes(undefined) ? undefined : failures.at(-1);
  if (failure !== undefined) return unavailable("FailedDiscoveryCheck", failure);
  return { status: "True", reason: "Passed", message: "all checks passed" };
}

function unavailable(reason: string, message: string): ApiServiceCondition {
  return { status: "False", reason, message };
}

function hasSlices(store: Pick<Store, "list">, namespace: string, name: string): boolean {
  const { items } = store.list(storageKey({ group: "discovery.k8s.io", plural: "endpointslices" }, namespace, ""));
  return items.some(({ object }) => object.metadata.labels?.["kubernetes.io/service-name"] === name);
}

/** Why the discovery document of the group version cannot be read; undefined if it can. */
async function discoveryFailure(api: RemoteApi, { resolve, fetchStatus }: AvailabilityOptions): Promise<string | undefined> {
  const path = `/apis/${api.group}/${api.version}`;
  let url = path;
  try {
    const endpoint = resolve(api);
    const { host } = endpoint;
    url = `https://${host.includes(":") ? `[${host}]` : host}:${endpoint.port}${path}`;
    const status = await fetchStatus(endpoint, path);
    if (status >= 200 && status < 300) return undefined;
    return `failing or missing response from ${url}: bad status from ${url}: ${status}`;
  } catch (error) {
    return `failing or missing response from ${url}: Get ${JSON.stringify(url)}: ${networkErrorText(error)}`;
  }
}
