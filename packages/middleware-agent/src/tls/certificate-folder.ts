import { createHash, createPrivateKey, X509Certificate } from "node:crypto";
import { type FSWatcher, watch } from "node:fs";
import { readFile, realpath } from "node:fs/promises";
import { join } from "node:path";
import type { Logger } from "@keelson/controller";
import { AgentError } from "../agent-error.ts";

/** A certificate, its private key and the authorities to trust, each in PEM. */
export interface Certificates {
  /** One or more authorities. */
  readonly authorities: string;
  readonly certificate: string;
  readonly key: string;
}

/** Certificates that may be replaced while they are in use. */
export interface CertificateSource {
  readonly current: Certificates;
  /** Calls `listener` after each change. */
  onChange(listener: () => void): void;
  close(): void;
}

/** Identifies certificates without their key, so that a controller can compare them with a Secret. */
export function certificateHash(parts: readonly Pick<Certificates, "authorities" | "certificate">[]): string {
  const hash = createHash("sha256");
  for (const { authorities, certificate } of parts)
    hash.update(`${authorities.length}\0${authorities}${certificate.length}\0${certificate}`);
  return hash.digest("hex").slice(0, 16);
}

/** Why certificates cannot be used; undefined if they can. */
export function certificateProblem({ authorities, certificate, key }: Certificates): string | undefined {
  try {
    void new X509Certificate(authorities);
  } catch {
    return "ca.crt: must contain certificates in PEM";
  }
  try {
    const leaf = new X509Certificate(certificate);
    return leaf.checkPrivateKey(createPrivateKey(key)) ? undefined : "tls.key: must be the key of tls.crt";
  } catch {
    return "tls.crt and tls.key: must be a certificate and its key in PEM";
  }
}

/** The mounted Secret with `ca.crt`, `tls.crt` and `tls.key`. A changed Secret is read as soon as the kubelet has written it. */
export class CertificateFolder implements CertificateSource {
  readonly #folder: string;
  readonly #log: Logger;
  readonly #watcher: FSWatcher;
  readonly #listeners = new Set<() => void>();
  #current: Certificates;
  #isReading = false;
  #isStale = false;

  private constructor(folder: string, current: Certificates, log: Logger) {
    this.#folder = folder;
    this.#current = current;
    this.#log = log;
    this.#watcher = watch(folder, { persistent: false }, () => this.#refresh());
    // The folder is removed with its Pod.
    this.#watcher.on("error", () => undefined);
  }

  /**
   * Opens a folder.
   *
   * **Errors**: an {@link AgentError} with code `InvalidConfig` that names the folder.
   */
  static async open(folder: string, log: Logger): Promise<CertificateFolder> {
    let current: Certificates;
    try {
      current = await readCertificates(folder);
    } catch (error) {
      throw new AgentError("InvalidConfig", `${folder}: ${(error as Error).message}`, { cause: error });
    }
    const problem = certificateProblem(current);
    if (problem !== undefined) throw new AgentError("InvalidConfig", `${folder}: ${problem}`);
    const opened = new CertificateFolder(folder, current, log);
    // The folder may have changed before it was watched.
    opened.#refresh();
    return opened;
  }

  get current(): Certificates {
    return this.#current;
  }

  onChange(listener: () => void): void {
    this.#listeners.add(listener);
  }

  close(): void {
    this.#watcher.close();
    this.#listeners.clear();
  }

  /** Reads the folder. Events that arrive meanwhile cause one more read. */
  #refresh(): void {
    this.#isStale = true;
    if (!this.#isReading) void this.#read();
  }

  async #read(): Promise<void> {
    this.#isReading = true;
    while (this.#isStale) {
      this.#isStale = false;
      try {
        const next = await readCertificates(this.#folder);
        const problem = certificateProblem(next);
        if (problem !== undefined) throw new AgentError("InvalidConfig", problem);
        if (next.key === this.#current.key && certificateHash([next]) === certificateHash([this.#current])) continue;
        this.#current = next;
        this.#log.info({ folder: this.#folder }, "loaded new certificates");
        for (const listener of this.#listeners) listener();
      } catch (error) {
        this.#log.warn({ err: error, folder: this.#folder }, "could not load new certificates; keeping the current ones");
      }
    }
    this.#isReading = false;
  }
}

/** Reads one version of a folder: the kubelet switches all files of a volume by replacing the link `..data`. */
async function readCertificates(folder: string): Promise<Certificates> {
  const version = await realpath(join(folder, "..data")).catch(() => folder);
  const [authorities, certificate, key] = await Promise.all(
    ["ca.crt", "tls.crt", "tls.key"].map((name) => readFile(join(version, name), "utf8")),
  );
  return { authorities: authorities ?? "", certificate: certificate ?? "", key: key ?? "" };
}
