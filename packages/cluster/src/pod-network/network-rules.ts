import { isIPv4 } from "node:net";
import type { DeepReadonly, KubernetesObject, ResourceType } from "@keelson/api-machinery";
import {
  EndpointSlice,
  type EndpointSliceObject,
  Pod,
  type PodObject,
  Service,
  type ServiceObject,
} from "@keelson/api-machinery/kinds";
import { type Clock, sleep } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Logger } from "@keelson/controller";
import { Informer, type StoreEffect } from "@keelson/controller/informer";
import { applyEffect } from "./followed-objects.ts";
import { runCommand } from "./network-commands.ts";
import type { NetworkNames } from "./network-names.ts";
import { type HostPort, machineRules, routerRules } from "./service-rules.ts";

/** Options of {@link startNetworkRules}. */
export interface NetworkRulesOptions {
  /** With the permissions of kube-proxy, and of a node to watch its Pods. */
  readonly client: Client;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  readonly names: NetworkNames;
  /** The node whose Pods may have host ports. */
  readonly nodeName: string;
  /** Lists and watches {@link nodeName}'s Pods. */
  readonly podClient: Client;
  /** The port of the API server on 127.0.0.1. */
  readonly apiPort: number;
}

/** Running rules. They stay in effect when they are stopped. */
export interface NetworkRules {
  stop(): Promise<void>;
}

/** The delay before rules that nftables rejected are applied again. */
const retryMs = 5_000;

/** Keeps the nftables rules of a Pod network up to date with Services, their endpoints and host ports. */
export function startNetworkRules(options: NetworkRulesOptions): NetworkRules {
  return new FollowedRules(options);
}

class FollowedRules implements NetworkRules {
  readonly #options: NetworkRulesOptions;
  readonly #services = new Map<string, DeepReadonly<ServiceObject>>();
  readonly #slices = new Map<string, DeepReadonly<EndpointSliceObject>>();
  readonly #pods = new Map<string, DeepReadonly<PodObject>>();
  readonly #stopping = new AbortController();
  readonly #runs: readonly Promise<void>[];
  #applying: Promise<void> | undefined;
  #isDue = false;
  #applied = "";

  constructor(options: NetworkRulesOptions) {
    this.#options = options;
    const { client, podClient, nodeName } = options;
    this.#runs = [
      this.#follow(client, Service, this.#services),
      this.#follow(client, EndpointSlice, this.#slices),
      this.#follow(podClient, Pod, this.#pods, `spec.nodeName=${nodeName}`),
    ];
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.allSettled([...this.#runs, this.#applying]);
  }

  #follow<T extends KubernetesObject>(
    client: Client,
    type: ResourceType<T>,
    map: Map<string, DeepReadonly<T>>,
    fieldSelector?: string,
  ): Promise<void> {
    const { clock, random, log } = this.#options;
    const selection = fieldSelector === undefined ? {} : { selection: { fieldSelector } };
    const onEffect = (effect: StoreEffect): void => {
      applyEffect<T, DeepReadonly<T>>(map, effect, (object) => object, Object.is);
      this.#isDue = true;
      this.#applying ??= this.#applyAll();
    };
    return new Informer({ client, type, ...selection, clock, random, log, onEffect }).run(this.#stopping.signal);
  }

  /** Applies rules until none are due. Changes of one turn are applied together. */
  async #applyAll(): Promise<void> {
    const { clock, log } = this.#options;
    const { signal } = this.#stopping;
    await Promise.resolve();
    while (this.#isDue && !signal.aborted) {
      this.#isDue = false;
      try {
        await this.#apply();
      } catch (error) {
        log.warn({ err: error }, "could not apply the rules of Services; retrying");
        this.#isDue = true;
        await sleep(clock, retryMs, signal).catch(() => {});
      }
    }
    // In the turn of the last check, so that no request is lost.
    this.#applying = undefined;
  }

  async #apply(): Promise<void> {
    const { names, apiPort } = this.#options;
    const hostPorts = hostPortsOf(this.#pods.values(), apiPort);
    const sources = { services: [...this.#services.values()], slices: [...this.#slices.values()], hostPorts };
    const router = routerRules(names, sources);
    const machine = machineRules(names, sources, apiPort);
    if (this.#applied === router + machine) return;
    await runCommand(["ip", "netns", "exec", names.router, "nft", "-f", "-"], router);
    await runCommand(["nft", "-f", "-"], machine);
    this.#applied = router + machine;
  }
}

/** The host ports of Pods with their own address, except for the API server's port, which no Pod may hide. */
export function hostPortsOf(pods: Iterable<DeepReadonly<PodObject>>, apiPort: number): readonly HostPort[] {
  const found: HostPort[] = [];
  for (const { spec, status } of pods) {
    const { phase, podIP } = status ?? {};
    if (podIP === undefined || !isIPv4(podIP) || podIP === status?.hostIP || phase === "Succeeded" || phase === "Failed")
      continue;
    for (const { hostPort, hostIP, containerPort, protocol = "TCP" } of spec.containers.flatMap(({ ports = [] }) => ports)) {
      // The API server accepts any text in `hostIP`, as kube-apiserver does, and it becomes a part of the rules.
      if (hostPort === undefined || hostPort === 0 || !(hostIP === undefined || hostIP === "" || isIPv4(hostIP))) continue;
      if (hostPort === apiPort && protocol === "TCP") continue;
      const target = { host: podIP, port: containerPort };
      found.push({ port: hostPort, protocol, target, ...(hostIP !== undefined && { hostIP }) });
    }
  }
  return found;
}
