interface ContainerPorts {
  readonly ports?: readonly {
    readonly containerPort: number;
    readonly hostPort?: number;
    readonly hostIP?: string;
    readonly protocol?: string;
  }[];
}

/** The parts of a Pod that use ports of its node. */
interface PortUser {
  readonly spec: {
    readonly hostNetwork?: boolean;
    readonly containers: readonly ContainerPorts[];
    readonly initContainers?: readonly (ContainerPorts & { readonly restartPolicy?: string })[];
  };
}

/** Ports of a node that Pods use. A port of all addresses conflicts with the same port of any. */
export class HostPorts {
  /** Addresses, `""` for all, by protocol and port. */
  readonly #addresses = new Map<string, Set<string>>();

  add(pod: PortUser): void {
    for (const { port, address } of portsOf(pod)) {
      const addresses = this.#addresses.get(port);
      if (addresses === undefined) this.#addresses.set(port, new Set([address]));
      else addresses.add(address);
    }
  }

  /** Whether a Pod needs a port that another one uses. */
  hasConflict(pod: PortUser): boolean {
    return portsOf(pod).some(({ port, address }) => {
      const addresses = this.#addresses.get(port);
      return addresses !== undefined && (address === "" || addresses.has("") || addresses.has(address));
    });
  }
}

function portsOf({ spec }: PortUser): readonly { readonly port: string; readonly address: string }[] {
  // A sidecar runs as long as the containers; other init containers have ended before these start.
  const sidecars = (spec.initContainers ?? []).filter(({ restartPolicy }) => restartPolicy === "Always");
  return [...sidecars, ...spec.containers]
    .flatMap((container) => container.ports ?? [])
    .flatMap(({ hostPort, containerPort, protocol = "TCP", hostIP = "" }) => {
      const port = spec.hostNetwork === true ? containerPort : hostPort;
      if (port === undefined || port === 0) return [];
      return [{ port: `${protocol} ${port}`, address: hostIP === "0.0.0.0" ? "" : hostIP }];
    });
}
