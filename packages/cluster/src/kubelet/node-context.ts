import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Logger } from "@keelson/controller";
import type { RunningEventRecorder } from "@keelson/controller/events";
import type { AddressPool } from "./node/address-pool.ts";
import type { NodeObjects } from "./node/node-objects.ts";
import type { NetworkPolicies } from "../pod-network/network-policies.ts";
import type { PodNetwork } from "../pod-network/pod-network.ts";
import type { PodView } from "./pod/pod-view.ts";
import type { AllowedSysctls } from "./pod/admission/sysctls.ts";
import type { SubPathMounts } from "./volumes/sub-path-mounts.ts";
import type { PodRuntimes } from "./runtimes/pod-runtimes.ts";

/** The services that the Pods of a node share. */
export interface NodeContext {
  readonly client: Client;
  readonly clock: Clock;
  /** The current time for deadlines, see `steadyTime`. */
  readonly steadyNow: () => number;
  readonly log: Logger;
  readonly runtimes: PodRuntimes;
  /** The handler of Pods without a RuntimeClass. */
  readonly defaultRuntime: string;
  readonly events: RunningEventRecorder;
  readonly objects: NodeObjects;
  readonly addresses: AddressPool;
  readonly nodeName: string;
  readonly hostIP: string;
  /** Whether Pods have the node's address. */
  readonly sharesHostAddress: boolean;
  /** The network of Pods with their own namespace. Undefined: Pods share the machine's network. */
  readonly network: PodNetwork | undefined;
  /** Isolates Pods of the {@link network}. Undefined: NetworkPolicies are not enforced. */
  readonly policies: Pick<NetworkPolicies, "admit" | "forget"> | undefined;
  /** The address of the DNS server of Pods of the {@link network}. Undefined: names of Services are in their hosts files. */
  readonly clusterDns: string | undefined;
  /** Directory of Pods, one subdirectory per uid. */
  readonly podsDir: string;
  /** The hosts file of a Pod: shared by its namespace, or its own if it has hostAliases. */
  hostsFile(pod: PodView): string;
  /** Removes a Pod's own hosts file. */
  forgetHostsFile(pod: PodView): void;
  /** Removes the hosts file of a namespace without Pods. */
  forgetNamespaceHosts(namespace: string): void;
  /** Removes hosts files of namespaces for which `isUsed` is false. */
  sweepHosts(isUsed: (namespace: string) => boolean): void;
  /** Environment variables of every container of a Pod. */
  environment(pod: PodView): Readonly<Record<string, string>>;
  /** The CA of the API server's certificate in PEM. */
  readonly authority: string | undefined;
  /** Mounts subpaths of volumes; undefined if this process may not mount. */
  readonly subPaths: SubPathMounts | undefined;
  readonly capacity: { readonly cpu: string; readonly memory: string };
  /** Whether the node is low on disk space, so that it rejects new Pods. */
  readonly hasDiskPressure: () => boolean;
  /** The kernel parameters that Pods may set. */
  readonly sysctls: AllowedSysctls;
  /** Whether this process may create mount namespaces. */
  readonly canMount: boolean;
}
