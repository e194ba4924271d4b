import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import type { ConfigMapObject, PersistentVolumeClaimObject, PodObject } from "@keelson/api-machinery/kinds";
import type { Group } from "../../api/group.ts";
import type { RenderedGroup } from "../../plugin/render-group.ts";

/** What the agent of a Pod says of it. */
export interface Role {
  readonly role: string;
  /** The address that a replica follows. */
  readonly primaryHost?: string;
  /** Whether a replica has all that its primary has, but for what is on the way. */
  readonly isInSync: boolean;
  readonly configHash?: string;
  readonly version?: string;
}

/** What the Group's controller sees. */
export interface GroupObservation {
  readonly group: DeepReadonly<Group>;
  /** The Group as the plugin renders it, or what is wrong with that. */
  readonly rendered: RenderedGroup | { readonly problem: string };
  readonly pods: readonly DeepReadonly<PodObject>[];
  readonly claims: readonly DeepReadonly<PersistentVolumeClaimObject>[];
  readonly configs: readonly DeepReadonly<ConfigMapObject>[];
  readonly services: readonly DeepReadonly<KubernetesObject>[];
  /** What agents answered just now, by name of the Pod; those that did not answer are not in it. */
  readonly roles: ReadonlyMap<string, Role>;
  readonly now: number;
}
