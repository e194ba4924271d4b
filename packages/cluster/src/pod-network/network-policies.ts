import { isDeepStrictEqual } from "node:util";
import type { DeepReadonly, KubernetesObject, ResourceType } from "@keelson/api-machinery";
import { Namespace, NetworkPolicy, Pod, type PodObject } from "@keelson/api-machinery/kinds";
import { type Clock, sleep } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Logger } from "@keelson/controller";
import { createEventRecorder, type RunningEventRecorder } from "@keelson/controller/events";
import { Informer, type StoreEffect } from "@keelson/controller/informer";
import { ClusterError } from "../cluster-error.ts";
import type { DnsPeer } from "./dns-peer.ts";
import { applyEffect } from "./followed-objects.ts";
import type { NetworkNames } from "./network-names.ts";
import { type AppliedSources, PolicyApplication } from "./policy-application.ts";
import {
  isSamePolicy,
  type KnownPod,
  knownPodOf,
  type KnownPolicy,
  knownPolicyOf,
  type PolicyPod,
  policyPodOf,
} from "./policy-objects.ts";

/** Options of {@link startNetworkPolicies}. */
export interface NetworkPoliciesOptions {
  /** Lists and watches Namespaces and NetworkPolicies. */
  readonly client: Client;
  /** Lists and watches the Pods of {@link nodeName}, and writes Events. */
  readonly podClient: Client;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  readonly names: NetworkNames;
  readonly nodeName: string;
  /** The ports of the DNS server at the node's address. Default: there is none. */
  readonly dns?: Omit<DnsPeer, "address">;
  /** Applies a rule set in the router, or only checks it. Rejects if nftables rejects it. Default: `nft`. */
  readonly apply?: (table: string, isCheck: boolean) => Promise<void>;
}

/** Running enforcement of NetworkPolicies. The rules stay in effect when it is stopped. */
export interface NetworkPolicies {
  /**
   * Resolves when rules that consider a Pod with an address are in effect, before which no packet of the Pod is forwarded. Rejects with
   * a ClusterError if the rules could not be applied, are not in effect within 30 s, or the Pod is forgotten.
   */
  admit(pod: DeepReadonly<PodObject>, address: string): Promise<void>;
  /** Forgets a Pod that {@link admit} announced. No packet of its address is forwarded from now on. */
  forget(podUid: string): void;
  stop(): Promise<void>;
}

/** The delay before rules that nftables rejected are applied again. */
const retryMs = 5_000;

/** How long a Pod waits for its rules. */
const admitMs = 30_000;

/** Keeps the rules of NetworkPolicies up to date with Pods, Namespaces and policies. Needs the router of the Pod network. */
export function startNetworkPolicies(options: NetworkPoliciesOptions): NetworkPolicies {
  return new FollowedPolicies(options);
}

interface Admission {
  readonly address: string;
  /** What is known until the Pod itself is observed. */
  readonly pod: PolicyPod;
  /** The version of the rules that considers it. */
  readonly version: number;
}

interface Waiter {
  readonly podUid: string;
  readonly version: number;
  resolve(): void;
  reject(error: unknown): void;
}

class FollowedPolicies implements NetworkPolicies {
  readonly #options: NetworkPoliciesOptions;
  /** Objects by namespace and name, reduced to what rules depend on. */
  readonly #pods = new Map<string, KnownPod>();
  readonly #namespaces = new Map<string, { readonly name: string; readonly labels: Readonly<Record<string, string>> }>();
  readonly #policies = new Map<string, KnownPolicy>();
  readonly #events: RunningEventRecorder;
  readonly #application: PolicyApplication;
  /** By the Pod's uid. */
  readonly #admitted = new Map<string, Admission>();
  readonly #stopping = new AbortController();
  readonly #runs: readonly Promise<void>[];
  readonly #unlisted = new Set<string>(["Pod", "Namespace", "NetworkPolicy"]);
  #waiters: readonly Waiter[] = [];
  #applying: Promise<void> | undefined;
  #version = 0;
  #appliedVersion = 0;

  constructor(options: NetworkPoliciesOptions) {
    this.#options = options;
    const { client, podClient, nodeName, names } = options;
    this.#events = createEventRecorder({ ...options, client: podClient, controller: "network-policies", instance: nodeName });
    this.#application = new PolicyApplication({ ...options, events: this.#events, signal: this.#stopping.signal });
    this.#runs = [
      this.#follow(
        client,
        Namespace,
        this.#namespaces,
        ({ metadata: { name = "", labels = {} } }) => ({ name, labels }),
        isDeepStrictEqual,
      ),
      this.#follow(client, NetworkPolicy, this.#policies, knownPolicyOf, isSamePolicy),
      this.#follow(podClient, Pod, this.#pods, (pod) => knownPodOf(pod, names), isDeepStrictEqual, `spec.nodeName=${nodeName}`),
    ];
  }

  async admit(pod: DeepReadonly<PodObject>, address: string): Promise<void> {
    const { uid = "" } = pod.metadata;
    const known = this.#admitted.get(uid);
    if (known?.address !== address) {
      this.#request();
      this.#admitted.set(uid, { address, pod: policyPodOf(pod, address), version: this.#version });
    }
    const version = this.#admitted.get(uid)?.version ?? this.#version;
    if (version <= this.#appliedVersion) return;
    if (this.#stopping.signal.aborted) throw stopped();
    await this.#waitFor(uid, version);
  }

  forget(podUid: string): void {
    this.#settle(
      (waiter) => waiter.podUid === podUid,
      ({ reject }) =>
        reject(new ClusterError("CommandFailed", "network policies: the Pod was removed before its rules were in effect")),
    );
    if (this.#admitted.delete(podUid)) this.#request();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    for (const { reject } of this.#waiters) reject(stopped());
    this.#waiters = [];
    await Promise.allSettled([...this.#runs, this.#applying]);
    await this.#events.stop();
  }

  async #waitFor(podUid: string, version: number): Promise<void> {
    const { clock } = this.#options;
    const settled = new AbortController();
    const applied = new Promise<void>((resolve, reject) => {
      const waiter = { podUid, version, resolve, reject };
      this.#waiters = [...this.#waiters, waiter];
      const expire = (): void => {
        const reason = `network policies: the rules of the Pod are not in effect after ${admitMs / 1_000} s`;
        this.#settle(
          (each) => each === waiter,
          () => reject(new ClusterError("Timeout", reason)),
        );
      };
      sleep(clock, admitMs, settled.signal).then(expire, () => {});
    });
    await applied.finally(() => settled.abort());
  }

  #follow<T extends KubernetesObject, V>(
    client: Client,
    type: ResourceType<T>,
    map: Map<string, V>,
    reduce: (object: DeepReadonly<T>) => V | undefined,
    isSame: (before: V, after: V) => boolean,
    fieldSelector?: string,
  ): Promise<void> {
    const { clock, random, log } = this.#options;
    const selection = fieldSelector === undefined ? {} : { selection: { fieldSelector } };
    const onEffect = (effect: StoreEffect): void => {
      const isFirst = effect.kind === "replace" && this.#unlisted.delete(type.kind);
      if (applyEffect(map, effect, reduce, isSame) || isFirst) this.#request();
    };
    return new Informer({ client, type, ...selection, clock, random, log, onEffect }).run(this.#stopping.signal);
  }

  /** Requests rules for the current objects. Changes of one turn are applied together. */
  #request(): void {
    this.#version++;
    this.#applying ??= this.#applyAll();
  }

  async #applyAll(): Promise<void> {
    const { clock, log } = this.#options;
    const { signal } = this.#stopping;
    await Promise.resolve();
    // Without all policies, rules would allow too much.
    while (this.#unlisted.size === 0 && this.#appliedVersion < this.#version && !signal.aborted) {
      const version = this.#version;
      try {
        await this.#application.apply(this.#sources());
        this.#appliedVersion = version;
        this.#settle(
          (waiter) => waiter.version <= version,
          ({ resolve }) => resolve(),
        );
      } catch (error) {
        log.warn({ err: error }, "could not apply the rules of network policies, the previous rules stay in effect; retrying");
        this.#settle(
          (waiter) => waiter.version <= version,
          ({ reject }) => reject(error),
        );
        await sleep(clock, retryMs, signal).catch(() => {});
      }
    }
    // In the turn of the last check, so that no request is lost.
    this.#applying = undefined;
  }

  #settle(isDue: (waiter: Waiter) => boolean, settle: (waiter: Waiter) => void): void {
    const due = this.#waiters.filter(isDue);
    this.#waiters = this.#waiters.filter((waiter) => !due.includes(waiter));
    for (const waiter of due) settle(waiter);
  }

  #sources(): AppliedSources {
    const pods = new Map<string, PolicyPod>();
    const byUid = new Map<string, PolicyPod>();
    for (const { uid, pod } of this.#pods.values()) {
      byUid.set(uid, pod);
      if (pod.address !== "") pods.set(pod.address, pod);
    }
    // An address belongs to the Pod that was admitted with it, whatever the status of a previous owner says.
    for (const [uid, { address, pod }] of this.#admitted) pods.set(address, { ...(byUid.get(uid) ?? pod), address });
    const namespaces = new Map([...this.#namespaces.values()].map(({ name, labels }) => [name, labels]));
    const { names, dns: ports } = this.#options;
    const dns =
      ports === undefined ? undefined : { address: names.nodeAddress, udpPort: ports.udpPort, tcpPort: ports.tcpPort };
    return { pods: [...pods.values()], namespaces, policies: [...this.#policies.values()], dns };
  }
}

function stopped(): ClusterError {
  return new ClusterError("CommandFailed", "network policies: not enforced while the node stops");
}
