import { join } from "node:path";
import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import type { EndpointSliceObject, ServiceObject } from "@keelson/api-machinery/kinds";
import type { StoreEffect } from "@keelson/controller/informer";
import { podKey } from "../pod/pod-view.ts";
import { HostsFiles } from "./hosts-files.ts";

/** The Services and endpoints that Pods find by name in their hosts files. */
export class ServiceNames {
  readonly hosts: HostsFiles;
  readonly #services = new Map<string, DeepReadonly<ServiceObject>>();
  readonly #slices = new Map<string, DeepReadonly<EndpointSliceObject>>();

  constructor(dataDir: string) {
    this.hosts = new HostsFiles(join(dataDir, "hosts"));
  }

  /** The Services of a namespace. */
  servicesOf(namespace: string): readonly DeepReadonly<ServiceObject>[] {
    return [...this.#services.values()].filter(({ metadata }) => metadata.namespace === namespace);
  }

  applyService(effect: StoreEffect): void {
    keep(this.#services, effect);
    this.update();
  }

  applySlice(effect: StoreEffect): void {
    keep(this.#slices, effect);
    this.update();
  }

  /** Writes the hosts files that have changed. */
  update(): void {
    this.hosts.update([...this.#services.values()], [...this.#slices.values()]);
  }
}

function keep<T extends KubernetesObject>(map: Map<string, DeepReadonly<T>>, effect: StoreEffect): void {
  if (effect.kind === "replace") {
    map.clear();
    for (const object of effect.objects) map.set(podKey(object), object as DeepReadonly<T>);
  } else if (effect.kind === "put") map.set(podKey(effect.object), effect.object as DeepReadonly<T>);
  else map.delete(podKey(effect.object));
}
