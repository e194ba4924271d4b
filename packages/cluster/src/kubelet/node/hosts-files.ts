import {
  mkdirSync,
  rmSync,
  openSync,
  closeSync,
  ftruncateSync,
  readdirSync,
  readFileSync,
  writeSync,
  existsSync,
} from "node:fs";
import { join } from "node:path";
import type { DeepReadonly } from "@keelson/api-machinery";
import type { EndpointSliceObject, ServiceObject } from "@keelson/api-machinery/kinds";
import { hostsText } from "../../service-proxy/hosts-text.ts";

/** An entry of a Pod's `hostAliases`. */
export interface HostAlias {
  readonly ip: string;
  readonly hostnames?: readonly string[] | undefined;
}

/** The first line of the files of Pods with their own address, as the kubelet writes it. */
export const podHeader = "# Kubernetes-managed hosts file.\n";
/** The first line of the files of Pods on the host's network. */
const hostNetworkHeader = "# Kubernetes-managed hosts file (host network).\n";
/** Follows the namespace in the name of the file of its Pods on the host's network. */
const hostNetworkSuffix = ".host-network";

/**
 * Hosts files: one per namespace for its Pods on the host's network and one for the others, mounted as their `/etc/hosts`, and one per
 * Pod with `hostAliases`. Files are written in place
 * because a bind mount refers to the inode, so a reader may briefly see a partial file.
 */
export class HostsFiles {
  readonly #dir: string;
  readonly #texts = new Map<string, string>();
  /** Files of single Pods, and of Pods on the host's network: namespace, first line and additional lines. */
  readonly #own = new Map<string, { readonly namespace: string; readonly header: string; readonly lines: string }>();

  constructor(dir: string) {
    this.#dir = dir;
    mkdirSync(dir, { recursive: true, mode: 0o755 });
  }

  /** The file of a namespace, or of Pod `uid` if it has aliases. Created if missing. */
  file(namespace: string, uid = "", aliases: readonly HostAlias[] = [], isOnHostNetwork = false): string {
    const header = isOnHostNetwork ? hostNetworkHeader : podHeader;
    const name = aliases.length > 0 ? `${namespace}.${uid}` : isOnHostNetwork ? `${namespace}${hostNetworkSuffix}` : namespace;
    if (name !== namespace) this.#own.set(name, { namespace, header, lines: aliasLines(aliases) });
    const path = join(this.#dir, name);
    if (!this.#texts.has(name)) {
      this.#texts.set(name, existsSync(path) ? readFileSync(path, "utf8") : "");
      if (!existsSync(path)) this.#write(name, `${header}${ownHosts()}${this.#own.get(name)?.lines ?? ""}`);
    }
    return path;
  }

  /** Removes the file of a deleted Pod, if it had its own. */
  forget(namespace: string, uid: string): void {
    const name = `${namespace}.${uid}`;
    this.#own.delete(name);
    this.#texts.delete(name);
    rmSync(join(this.#dir, name), { force: true });
  }

  /** Removes the files of a namespace without Pods. */
  forgetNamespace(namespace: string): void {
    for (const name of [namespace, `${namespace}${hostNetworkSuffix}`]) {
      this.#texts.delete(name);
      this.#own.delete(name);
      rmSync(join(this.#dir, name), { force: true });
    }
  }

  /** Removes files of namespaces and Pods that an earlier kubelet left behind. `isUsed` receives names of namespaces. */
  sweep(isUsed: (namespace: string) => boolean): void {
    for (const name of readdirSync(this.#dir)) {
      // A namespace is a DNS label, so a dot separates it from the uid of a Pod or another suffix.
      const [namespace = ""] = name.split(".");
      if (isUsed(namespace)) continue;
      this.#texts.delete(name);
      this.#own.delete(name);
      rmSync(join(this.#dir, name), { force: true });
    }
  }

  /** Updates all files in use. */
  update(services: readonly DeepReadonly<ServiceObject>[], slices: readonly DeepReadonly<EndpointSliceObject>[]): void {
    const own = ownHosts();
    for (const name of this.#texts.keys()) {
      const { namespace = name, header = podHeader, lines = "" } = this.#own.get(name) ?? {};
      this.#write(name, `${header}${hostsText(namespace, own, services, slices)}${lines}`);
    }
  }

  #write(namespace: string, text: string): void {
    if (this.#texts.get(namespace) === text) return;
    const bytes = Buffer.from(text);
    const file = openSync(join(this.#dir, namespace), existsSync(join(this.#dir, namespace)) ? "r+" : "w", 0o644);
    try {
      writeSync(file, bytes, 0, bytes.length, 0);
      ftruncateSync(file, bytes.length);
    } finally {
      closeSync(file);
    }
    this.#texts.set(namespace, text);
  }
}

function ownHosts(): string {
  try {
    return readFileSync("/etc/hosts", "utf8");
  } catch {
    return "127.0.0.1 localhost\n";
  }
}

/** The lines of `hostAliases` at the end of a file. */
export function aliasLines(aliases: readonly HostAlias[]): string {
  if (aliases.length === 0) return "";
  const lines = aliases.map(({ ip, hostnames = [] }) => [ip, ...hostnames].join("\t"));
  return `\n# Entries added by HostAliases.\n${lines.join("\n")}\n`;
}
