import type { DeepReadonly } from "@keelson/api-machinery";
import type { EndpointSliceObject, ServiceObject } from "@keelson/api-machinery/kinds";
import { slicesByService } from "./service-routes.ts";

/**
 * The hosts file of a namespace's Pods: the machine's own lines, then every Service as `name.namespace.svc.cluster.local` with its
 * shorter forms (`name` alone only within the namespace). A headless Service resolves to its ready endpoints, and each endpoint with
 * a host name (StatefulSets) is also `host.service.namespace.svc.cluster.local` with its shorter forms.
 */
export function hostsText(
  namespace: string,
  own: string,
  services: Iterable<DeepReadonly<ServiceObject>>,
  slices: Iterable<DeepReadonly<EndpointSliceObject>>,
): string {
  const byService = slicesByService(slices);
  const lines: string[] = [];
  for (const { metadata, spec } of services) {
    const { name = "", namespace: home = "" } = metadata;
    const forms = (host: string): string =>
      [
        `${host}.${home}.svc.cluster.local`,
        `${host}.${home}.svc`,
        `${host}.${home}`,
        ...(home === namespace ? [host] : []),
      ].join(" ");
    const ip = spec?.clusterIP;
    const isHeadless = ip === "None";
    if (ip !== undefined && ip !== "" && !isHeadless) lines.push(`${ip} ${forms(name)}`);
    for (const slice of byService.get(`${home}/${name}`) ?? []) {
      for (const { addresses, conditions, hostname } of slice.endpoints ?? []) {
        const [address] = addresses;
        const isShown = conditions?.ready !== false || spec?.publishNotReadyAddresses === true;
        if (address === undefined || !isShown) continue;
        if (isHeadless) lines.push(`${address} ${forms(name)}`);
        if (hostname !== undefined && hostname !== "") lines.push(`${address} ${forms(`${hostname}.${name}`)}`);
      }
    }
  }
  const head = own === "" || own.endsWith("\n") ? own : `${own}\n`;
  return `${head}${[...new Set(lines)]
    .sort()
    .map((line) => `${line}\n`)
    .join("")}`;
}
