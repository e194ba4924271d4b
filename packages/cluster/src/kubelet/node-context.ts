import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Logger, RunningEventRecorder } from "@keelson/controller";
import type { AddressPool } from "./node/address-pool.ts";
import type { NodeObjects } from "./node/node-objects.ts";
import type { PodView } from "./pod/pod-view.ts";
import type { PodRuntimes } from "./runtimes/pod-runtimes.ts";

/** What the Pods of a node share. */
export interface NodeContext {
  readonly client: Client;
  readonly clock: Clock;
  /** The time of Pods' deadlines. */
  readonly steadyNow: () => number;
  readonly log: Logger;
  readonly runtimes: PodRuntimes;
  readonly events: RunningEventRecorder;
  readonly objects: NodeObjects;
  readonly addresses: AddressPool;
  readonly nodeName: string;
  readonly hostIP: string;
  /** Folders of Pods, one each by uid. */
  readonly podsDir: string;
  /** The hosts file of a Pod: its namespace's, or one of its own. */
  hostsFile(pod: PodView): string;
  /** Removes it, where it is the Pod's own. */
  forgetHostsFile(pod: PodView): void;
  /** Variables of every container. */
  readonly environment: Readonly<Record<string, string>>;
  /** PEM of the authority that signed the API server's certificate. */
  readonly authority: string | undefined;
  readonly capacity: { readonly cpu: string; readonly memory: string };
  /** Whether this process may make mount namespaces. */
  readonly canMount: boolean;
}
