import { readFile, realpath } from "node:fs/promises";
import { join } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import { AgentError } from "../agent-error.ts";
import { AcceptedCertificates, type LastAccepted } from "./accepted-certificates.ts";
import { areSameCertificates, certificateProblem, type Certificates, type CertificateSource } from "./certificates.ts";
import { FolderWatch, type FolderWatchOptions } from "./folder-watch.ts";

/** Options of {@link CertificateFolder}. */
export interface CertificateFolderOptions extends Partial<Pick<FolderWatchOptions, "clock" | "watchFolder">> {
  /** File on the volume for the certificates that the program accepted last. See the guarantees of {@link CertificateFolder}. Default: none. */
  readonly acceptedFile?: string;
}

/**
 * The mounted Secret with `ca.crt`, `tls.crt` and `tls.key`. A changed Secret is read as soon as the kubelet has written it.
 *
 * **Guarantees**: with `acceptedFile`, a program restarts with the certificates that it accepted last. Those that are mounted are used when it
 * runs: if they cannot be used, only their rotation fails. After a failed start with the accepted ones, the next start uses those that are
 * mounted, if they can be used. If that fails too, the accepted ones are next: the cause may have been another one.
 */
export class CertificateFolder implements CertificateSource {
  readonly #folder: string;
  readonly #log: Logger;
  readonly #accepted: AcceptedCertificates | undefined;
  readonly #watch: FolderWatch;
  readonly #listeners = new Set<() => void>();
  #current: Certificates;
  #isReading = false;
  #isStale = false;

  private constructor(
    folder: string,
    current: Certificates,
    log: Logger,
    { clock = systemClock, acceptedFile, ...options }: CertificateFolderOptions,
  ) {
    this.#folder = folder;
    this.#current = current;
    this.#log = log;
    this.#accepted = acceptedFile === undefined ? undefined : new AcceptedCertificates(acceptedFile);
    this.#watch = new FolderWatch(folder, () => this.#refresh(), { clock, log, ...options });
  }

  /**
   * Opens a directory.
   *
   * **Errors**: an {@link AgentError} with code `InvalidConfig` that names the directory.
   */
  static async open(folder: string, log: Logger, options: CertificateFolderOptions = {}): Promise<CertificateFolder> {
    const { acceptedFile } = options;
    const last = acceptedFile === undefined ? undefined : await new AcceptedCertificates(acceptedFile).read();
    const opened = new CertificateFolder(folder, await readInitial(folder, last, log), log, options);
    // The directory may have changed before it was watched.
    opened.#refresh();
    return opened;
  }

  get current(): Certificates {
    return this.#current;
  }

  onChange(listener: () => void): void {
    this.#listeners.add(listener);
    this.#refresh();
  }

  async accept(certificates: Certificates): Promise<void> {
    await this.#accepted?.write(certificates);
  }

  async recordFailure(): Promise<void> {
    await this.#accepted?.recordFailure(this.#current);
  }

  close(): void {
    this.#watch.close();
    this.#listeners.clear();
  }

  /** Reads the directory. Events that arrive meanwhile cause one more read. A program starts with what it accepted: its rotation listens later. */
  #refresh(): void {
    if (this.#accepted !== undefined && this.#listeners.size === 0) return;
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
        if (areSameCertificates(next, this.#current)) continue;
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

/** The certificates to start with. Rejects only if neither those that were accepted nor those that are mounted can be used. */
async function readInitial(folder: string, last: LastAccepted | undefined, log: Logger): Promise<Certificates> {
  if (last === undefined) return await readMounted(folder);
  if (!last.hasFailed) return last.certificates;
  try {
    return await readMounted(folder);
  } catch (error) {
    log.warn({ err: error, folder }, "could not load the mounted certificates; using those that were accepted last");
    return last.certificates;
  }
}

/** Reads a directory with certificates that can be used. Rejects with an {@link AgentError} that names it. */
async function readMounted(folder: string): Promise<Certificates> {
  let mounted: Certificates;
  try {
    mounted = await readCertificates(folder);
  } catch (error) {
    throw new AgentError("InvalidConfig", `${folder}: ${(error as Error).message}`, { cause: error });
  }
  const problem = certificateProblem(mounted);
  if (problem !== undefined) throw new AgentError("InvalidConfig", `${folder}: ${problem}`);
  return mounted;
}

/** Reads one version of a directory: the kubelet switches all files of a volume by replacing the link `..data`. */
async function readCertificates(folder: string): Promise<Certificates> {
  const version = await realpath(join(folder, "..data")).catch(() => folder);
  const [authorities, certificate, key] = await Promise.all(
    ["ca.crt", "tls.crt", "tls.key"].map((name) => readFile(join(version, name), "utf8")),
  );
  return { authorities: authorities ?? "", certificate: certificate ?? "", key: key ?? "" };
}
