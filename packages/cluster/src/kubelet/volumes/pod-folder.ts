import { mkdir } from "node:fs/promises";
import { basename, join } from "node:path";
import type { NodeContext } from "../node-context.ts";
import type { PodView } from "../pod/pod-view.ts";
import { hasNetwork, networkParameters } from "../pod/network/pod-addresses.ts";
import { privatePodUser } from "../runtimes/private-pod-user.ts";
import { runtimeHandler } from "../runtimes/runtime-classes.ts";
import { removePodFolder } from "./memory-volumes.ts";
import { hasTokenVolume, withTokenVolume } from "./token-volume.ts";
import { prepareVolumes } from "./volumes.ts";

/** The directory of a Pod on its node, with its volumes, and its network namespace if it has one. All operations on it are serialized. */
export class PodFolder {
  /** The absolute path of the directory. */
  readonly path: string;
  readonly #node: NodeContext;
  readonly #podIP: string;
  #queue: Promise<void> = Promise.resolve();
  #volumes: ReadonlyMap<string, string> = new Map();
  #isRefreshDue = false;
  /** The handler of the Pod's RuntimeClass, which is immutable. */
  #handler: string | undefined;

  constructor(node: NodeContext, pod: PodView, podIP: string) {
    this.path = join(node.podsDir, pod.metadata.uid ?? "");
    this.#node = node;
    this.#podIP = podIP;
  }

  /** Volume directories by name, as of the last successful preparation. */
  get volumes(): ReadonlyMap<string, string> {
    return this.#volumes;
  }

  /** Creates the Pod's network namespace and volumes. Rejects with a VolumeError or a ClusterError. */
  prepare(pod: PodView): Promise<void> {
    return this.#enqueue(async () => {
      if (hasNetwork(this.#node, pod)) {
        await this.#node.network?.attach(pod.metadata.uid ?? "", this.#podIP, networkParameters(pod));
        // Rules first, so that policies act on the first packet.
        await this.#node.policies?.admit(pod, this.#podIP);
      }
      await this.#prepare(pod);
    });
  }

  /** Updates the files of the Pod's volumes. Calls that wait for the same refresh are merged. `pod` returns undefined to cancel. */
  async refresh(pod: () => PodView | undefined): Promise<void> {
    if (this.#isRefreshDue) return;
    this.#isRefreshDue = true;
    await this.#enqueue(async () => {
      this.#isRefreshDue = false;
      const current = pod();
      if (current !== undefined) await this.#prepare(current);
    });
  }

  /** Removes the network namespace, and the directory with everything in it. */
  remove(): Promise<void> {
    // A Pod that waits for its rules must not delay its removal.
    this.#node.policies?.forget(basename(this.path));
    return this.#enqueue(async () => {
      await this.#node.network?.detach(basename(this.path));
      this.#node.policies?.forget(basename(this.path));
      await removePodFolder(this.path);
    });
  }

  #enqueue(action: () => Promise<void>): Promise<void> {
    const done = this.#queue.then(action);
    this.#queue = done.catch(() => {});
    return done;
  }

  async #prepare(pod: PodView): Promise<void> {
    const { objects, hostIP, nodeName, capacity, authority, canMount } = this.#node;
    const folder = join(this.path, "volumes");
    await mkdir(folder, { recursive: true });
    const addsToken = canMount && !hasTokenVolume(pod) && (await objects.mountsToken(pod));
    this.#handler ??= await runtimeHandler(this.#node, pod);
    this.#volumes = await prepareVolumes(addsToken ? withTokenVolume(pod) : pod, folder, {
      configMap: (namespace, name) => objects.configMap(namespace, name),
      secret: (namespace, name) => objects.secret(namespace, name),
      claimFolder: (namespace, claim) => objects.claimFolder(namespace, claim),
      token: (holder, request) => objects.token(holder, request),
      podIP: this.#podIP,
      hostIP,
      nodeName,
      nodeLimits: capacity,
      authority,
      canMount,
      user: privatePodUser(pod, this.#handler, this.#node)?.ids,
    });
  }
}
