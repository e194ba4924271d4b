import { isIPv4 } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { DeepReadonly, KubernetesObject, ResourceType } from "@keelson/api-machinery";
import { Namespace, NetworkPolicy, type NetworkPolicyObject, Pod, type PodObject } from "@keelson/api-machinery/kinds";
import { type Clock, sleep } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Logger } from "@keelson/controller";
import { Informer, type StoreEffect } from "@keelson/controller/informer";
import { ClusterError } from "../cluster-error.ts";
import { runCommand } from "./network-commands.ts";
import type { NetworkNames } from "./network-names.ts";
import { type PolicyPod, policyRules, type PolicySources, type PolicySpec } from "./policy-rules.ts";
import { policyTable } from "./policy-table.ts";

/** Options of {@link startNetworkPolicies}. */
export interface NetworkPoliciesOptions {
  /** Lists and watches Namespaces and NetworkPolicies. */
  readonly client: Client;
  /** Lists and watches the Pods of {@link nodeName}. */
  readonly podClient: Client;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  readonly names: NetworkNames;
  readonly nodeName: string;
  /** Applies a rule set in the router. Default: `nft`. */
  readonly apply?: (table: string) => Promise<void>;
}

/** Running enforcement of NetworkPolicies. The rules stay in effect when it is stopped. */
export interface NetworkPolicies {
  /**
   * Resolves when rules that consider a Pod with an address are in effect, before which no packet of the Pod is forwarded. Rejects with
   * a ClusterError if the rules could not be applied.
   */
  admit(pod: DeepReadonly<PodObject>, address: string): Promise<void>;
  /** Forgets a Pod that {@link admit} announced. No packet of its address is forwarded any more. */
  forget(podUid: string): void;
  stop(): Promise<void>;
}

/** The delay before rules that nftables rejected are applied again. */
const retryMs = 5_000;

/** How long rules are computed before other work gets a turn. */
const sliceMs = 3;

/** Keeps the rules of NetworkPolicies up to date with Pods, Namespaces and policies. Needs the router of the Pod network. */
export function startNetworkPolicies(options: NetworkPoliciesOptions): NetworkPolicies {
  return new FollowedPolicies(options);
}

interface KnownPod {
  readonly uid: string;
  readonly pod: PolicyPod;
}

interface Admission {
  readonly address: string;
  /** What is known until the Pod itself is observed. */
  readonly pod: PolicyPod;
  /** The version of the rules that considers it. */
  readonly version: number;
}

interface Waiter {
  readonly version: number;
  resolve(): void;
  reject(error: unknown): void;
}

class FollowedPolicies implements NetworkPolicies {
  readonly #options: NetworkPoliciesOptions;
  /** Objects by namespace and name, reduced to what rules depend on. */
  readonly #pods = new Map<string, KnownPod>();
  readonly #namespaces = new Map<string, { readonly name: string; readonly labels: Readonly<Record<string, string>> }>();
  readonly #policies = new Map<string, PolicySpec>();
  /** By the Pod's uid. */
  readonly #admitted = new Map<string, Admission>();
  readonly #stopping = new AbortController();
  readonly #runs: readonly Promise<void>[];
  readonly #unlisted = new Set<string>(["Pod", "Namespace", "NetworkPolicy"]);
  #waiters: readonly Waiter[] = [];
  #applying: Promise<void> | undefined;
  #version = 0;
  #appliedVersion = 0;
  #applied = "";

  constructor(options: NetworkPoliciesOptions) {
    this.#options = options;
    const { client, podClient, nodeName, names } = options;
    this.#runs = [
      this.#follow(client, Namespace, this.#namespaces, ({ metadata: { name = "", labels = {} } }) => ({ name, labels })),
      this.#follow(client, NetworkPolicy, this.#policies, policySpecOf),
      this.#follow(podClient, Pod, this.#pods, (pod) => knownPodOf(pod, names), `spec.nodeName=${nodeName}`),
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
    await new Promise<void>((resolve, reject) => {
      this.#waiters = [...this.#waiters, { version, resolve, reject }];
    });
  }

  forget(podUid: string): void {
    if (this.#admitted.delete(podUid)) this.#request();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    for (const { reject } of this.#waiters) reject(stopped());
    this.#waiters = [];
    await Promise.allSettled([...this.#runs, this.#applying]);
  }

  #follow<T extends KubernetesObject, V>(
    client: Client,
    type: ResourceType<T>,
    map: Map<string, V>,
    reduce: (object: DeepReadonly<T>) => V | undefined,
    fieldSelector?: string,
  ): Promise<void> {
    const { clock, random, log } = this.#options;
    const selection = fieldSelector === undefined ? {} : { selection: { fieldSelector } };
    const onEffect = (effect: StoreEffect): void => {
      const isFirst = effect.kind === "replace" && this.#unlisted.delete(type.kind);
      if (update(map, effect, reduce) || isFirst) this.#request();
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
        await this.#apply();
        this.#appliedVersion = version;
        this.#settle(version, ({ resolve }) => resolve());
      } catch (error) {
        log.warn({ err: error }, "could not apply the rules of network policies, the previous rules stay in effect; retrying");
        this.#settle(version, ({ reject }) => reject(error));
        await sleep(clock, retryMs, signal).catch(() => {});
      }
    }
    // In the turn of the last check, so that no request is lost.
    this.#applying = undefined;
  }

  #settle(version: number, settle: (waiter: Waiter) => void): void {
    const due = this.#waiters.filter((waiter) => waiter.version <= version);
    this.#waiters = this.#waiters.filter((waiter) => waiter.version > version);
    for (const waiter of due) settle(waiter);
  }

  async #apply(): Promise<void> {
    const { names } = this.#options;
    const { apply = (input) => runCommand(["ip", "netns", "exec", names.router, "nft", "-f", "-"], input).then(() => {}) } =
      this.#options;
    const rules = await this.#inSlices(policyRules(this.#sources()));
    const table = await this.#inSlices(policyTable(names, rules));
    if (table === this.#applied) return;
    await apply(table);
    this.#applied = table;
  }

  #sources(): PolicySources {
    const pods = new Map<string, PolicyPod>();
    const byUid = new Map<string, PolicyPod>();
    for (const { uid, pod } of this.#pods.values()) {
      byUid.set(uid, pod);
      if (pod.address !== "") pods.set(pod.address, pod);
    }
    // An address belongs to the Pod that was admitted with it, whatever the status of a previous owner says.
    for (const [uid, { address, pod }] of this.#admitted) pods.set(address, { ...(byUid.get(uid) ?? pod), address });
    const namespaces = new Map([...this.#namespaces.values()].map(({ name, labels }) => [name, labels]));
    return { pods: [...pods.values()], namespaces, policies: [...this.#policies.values()] };
  }

  /** Runs a computation to its end, in several turns of the event loop. */
  async #inSlices<T>(steps: Generator<void, T>): Promise<T> {
    const { clock } = this.#options;
    let since = clock.monotonic();
    for (;;) {
      const step = steps.next();
      if (step.done === true) return step.value;
      if (clock.monotonic() - since < sliceMs) continue;
      await nextTurn();
      this.#stopping.signal.throwIfAborted();
      since = clock.monotonic();
    }
  }
}

/** Applies an effect to a map of reduced objects. Returns whether one of them has changed. */
function update<T extends KubernetesObject, V>(
  map: Map<string, V>,
  effect: StoreEffect,
  reduce: (object: DeepReadonly<T>) => V | undefined,
): boolean {
  const key = ({ metadata }: DeepReadonly<KubernetesObject>): string => `${metadata.namespace ?? ""}/${metadata.name ?? ""}`;
  const put = (object: DeepReadonly<KubernetesObject>): boolean => {
    // The informer of a type has objects of that type only.
    const reduced = reduce(object as DeepReadonly<T>);
    if (reduced === undefined) return map.delete(key(object));
    const isChanged = JSON.stringify(map.get(key(object))) !== JSON.stringify(reduced);
    if (isChanged) map.set(key(object), reduced);
    return isChanged;
  };
  if (effect.kind === "put") return put(effect.object);
  if (effect.kind !== "replace") return map.delete(key(effect.object));
  const kept = new Set(effect.objects.map(key));
  const gone = [...map.keys()].filter((each) => !kept.has(each));
  for (const each of gone) map.delete(each);
  return effect.objects.filter(put).length > 0 || gone.length > 0;
}

function policySpecOf({ metadata, spec = {} }: DeepReadonly<NetworkPolicyObject>): PolicySpec {
  return { namespace: metadata.namespace ?? "", name: metadata.name ?? "", spec };
}

/** A Pod that may have a network namespace; its address is `""` until its status shows it. Undefined if it has none or has ended. */
function knownPodOf(pod: DeepReadonly<PodObject>, names: Pick<NetworkNames, "pods" | "nodeAddress">): KnownPod | undefined {
  const { podIP = "", phase } = pod.status ?? {};
  if (pod.spec.hostNetwork === true || phase === "Succeeded" || phase === "Failed") return undefined;
  if (podIP === names.nodeAddress) return undefined;
  // `pods` is a /16.
  const isOwn = isIPv4(podIP) && podIP.split(".", 2).join(".") === names.pods.split(".", 2).join(".");
  return { uid: pod.metadata.uid ?? "", pod: policyPodOf(pod, isOwn ? podIP : "") };
}

function policyPodOf({ metadata, spec }: DeepReadonly<PodObject>, address: string): PolicyPod {
  const containers = [...spec.containers, ...(spec.initContainers ?? [])];
  const ports = containers.flatMap(({ ports: own = [] }) =>
    own.flatMap(({ name, protocol = "TCP", containerPort }) =>
      name === undefined ? [] : [{ name, protocol, port: containerPort }],
    ),
  );
  return { namespace: metadata.namespace ?? "", address, labels: metadata.labels ?? {}, ports };
}

function stopped(): ClusterError {
  return new ClusterError("CommandFailed", "network policies: not enforced while the node stops");
}
