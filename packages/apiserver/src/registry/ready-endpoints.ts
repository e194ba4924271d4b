import { type Store, storageKey } from "../storage/store.ts";
import { listAt, textAt, valueAt } from "./object-fields.ts";

/** Host and port to connect to. */
export interface Endpoint {
  readonly host: string;
  readonly port: number;
}

const slices = { group: "discovery.k8s.io", plural: "endpointslices" };

/** The addresses in a Service's EndpointSlices that are ready and have the named port. */
export function readyEndpoints(
  store: Pick<Store, "list">,
  service: { readonly namespace: string; readonly name: string },
  portName: string,
): readonly Endpoint[] {
  const { items } = store.list(storageKey(slices, service.namespace, ""));
  return items
    .filter(({ object }) => object.metadata.labels?.["kubernetes.io/service-name"] === service.name)
    .flatMap(({ object }) => {
      const found = listAt(object, "ports").find((each) => textAt(each, "name") === portName);
      const port = valueAt(found, "port");
      if (typeof port !== "number") return [];
      return listAt(object, "endpoints")
        .filter((endpoint) => valueAt(endpoint, "conditions", "ready") !== false)
        .flatMap((endpoint) => listAt(endpoint, "addresses"))
        .map((host) => ({ host: String(host), port }));
    });
}
