import type { DeepReadonly } from "@keelson/api-machinery";
import type { EndpointsObject, PersistentVolumeClaimObject } from "@keelson/api-machinery/kinds";

/** A PersistentVolumeClaim from the cache. */
export type Claim = DeepReadonly<PersistentVolumeClaimObject>;

type Subset = NonNullable<EndpointsObject["subsets"]>[number];

/** One address of Endpoints. */
export type EndpointAddress = NonNullable<Subset["addresses"]>[number];
