import { mkdirSync, openSync, closeSync, ftruncateSync, readFileSync, writeSync, existsSync } from "node:fs";
import { join } from "node:path";
import type { DeepReadonly, EndpointSliceObject, ServiceObject } from "@keelson/api-machinery";
import { hostsText } from "../service-proxy/hosts-text.ts";

/**
 * One hosts file a namespace, which its Pods see as `/etc/hosts`. Written in place, because a file that is mounted is this file
 * and not its name; so a reader may, for an instant, see a file that is being written.
 */
export class HostsFiles {
  readonly #dir: string;
  readonly #texts = new Map<string, string>();

  constructor(dir: string) {
    this.#dir = dir;
    mkdirSync(dir, { recursive: true, mode: 0o755 });
  }

  /** The file of a namespace; made when it is not there. */
  file(namespace: string): string {
    const path = join(this.#dir, namespace);
    if (!this.#texts.has(namespace)) {
      this.#texts.set(namespace, existsSync(path) ? readFileSync(path, "utf8") : "");
      if (!existsSync(path)) this.#write(namespace, ownHosts());
    }
    return path;
  }

  /** Brings the files that are in use up to date. */
  update(services: readonly DeepReadonly<ServiceObject>[], slices: readonly DeepReadonly<EndpointSliceObject>[]): void {
    const own = ownHosts();
    for (const namespace of this.#texts.keys()) this.#write(namespace, hostsText(namespace, own, services, slices));
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
