import type { ReportedCredentials } from "../credentials/credential-state.ts";
import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import type { ConfigMapObject, PersistentVolumeClaimObject, PodObject } from "@keelson/api-machinery/kinds";
import type { Group } from "../../api/group.ts";
import type { RenderedGroup } from "../../plugin/render-group.ts";

/** State of a Pod as reported by its agent. */
export interface Role {
  /** The archive of the log. Undefined if the program has no log to archive. */
  readonly log?: {
    readonly isArchived: boolean;
    /** The last archived file, and when it was archived. */
    readonly file?: string;
    readonly archivedAt?: string;
    /** Number of complete files that were not archived. */
    readonly backlog?: number;
    /** The first file after log that was lost. */
    readonly missing?: string;
  };
  readonly role: string;
  /** Address of the primary that a replica follows. */
  readonly primaryHost?: string;
  /** Whether a replica is connected to its primary and has completed its initial sync. */
  readonly isInSync: boolean;
  readonly configHash?: string;
  readonly version?: string;
  /** Version of the data, if the program cannot use it before it is upgraded. */
  readonly dataVersion?: string;
  /** `running`, or `failed: ` and the reason. Undefined: no upgrade of the data was started. */
  readonly upgrade?: string;
  /** Replication offset: how much of the primary's data a replica has. */
  readonly offset?: number;
  /** Timeline of the offset: offsets of an earlier timeline are older data, however large. Undefined if the program has no timelines. */
  readonly timeline?: number;
  /** Epoch of the last assigned role. */
  readonly epoch?: number;
  /** Number of keys. */
  readonly keys?: number;
  /** Key of the members that decide about the primary, empty without any. */
  readonly members?: string;
  /** Identifies the certificates in force. Undefined without TLS. */
  readonly certificates?: string;
  /** The users in force. Undefined if the program has none. */
  readonly credentials?: ReportedCredentials;
  /** The tokens that the agent accepts. Undefined: an agent of an earlier release, whose token cannot change. */
  readonly tokens?: ReportedCredentials;
}

/** Inputs of a decision about a Group. */
export interface GroupObservation {
  readonly group: DeepReadonly<Group>;
  /** The rendered Group, or why it cannot be rendered. */
  readonly rendered: RenderedGroup | { readonly problem: string };
  readonly pods: readonly DeepReadonly<PodObject>[];
  readonly claims: readonly DeepReadonly<PersistentVolumeClaimObject>[];
  readonly configs: readonly DeepReadonly<ConfigMapObject>[];
  readonly services: readonly DeepReadonly<KubernetesObject>[];
  /** Current responses of agents by Pod name. Agents that did not respond are missing. */
  readonly roles: ReadonlyMap<string, Role>;
  readonly now: number;
}
