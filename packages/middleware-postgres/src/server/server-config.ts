import type { EngineOptions } from "@keelson/middleware-agent";
import { accessRules, passwordFileOf, postgresConfig, type Upstream } from "./postgres-config.ts";
import type { ServerFiles } from "./server-files.ts";
import { withMinima } from "./standby-minima.ts";

/** How a server is started. */
export interface StartMode {
  /** A standby without an upstream keeps its data as it is. */
  readonly isStandby: boolean;
  readonly upstream?: Upstream;
  /** Whether clients and replicas may connect. */
  readonly isOpen: boolean;
}

/** The configuration files of a server, and what they were written for. */
export class ServerConfig {
  /** The parameters of the App. */
  parameters: Readonly<Record<string, string>> = {};
  /** Command that archives a segment of the log; undefined: the log is not archived. */
  archiveCommand: string | undefined;
  readonly #options: Pick<EngineOptions, "host" | "port" | "tls">;
  readonly #files: ServerFiles;
  #mode: StartMode = { isStandby: true, isOpen: false };
  #isRaised = false;

  constructor(options: Pick<EngineOptions, "host" | "port" | "tls">, files: ServerFiles) {
    this.#options = options;
    this.#files = files;
  }

  get mode(): StartMode {
    return this.#mode;
  }

  /** Whether a setting is higher than its parameter, for the data of a standby. */
  get isRaised(): boolean {
    return this.#isRaised;
  }

  /** Path of `postgresql.conf`. */
  get file(): string {
    return this.#files.path("conf/postgresql.conf");
  }

  /** Writes the files. `isStarting`: the server reads all settings, including those that need a restart. */
  async write(mode: StartMode, { isStarting = false, archiveCommand = this.archiveCommand } = {}): Promise<void> {
    const { host, port } = this.#options;
    const tls = await this.#files.writeCertificates(this.#options.tls);
    const hbaFile = this.#files.path("conf/pg_hba.conf");
    const parameters = mode.isStandby ? withMinima(this.parameters, await this.#files.controlData()) : this.parameters;
    if (isStarting) this.#isRaised = parameters !== this.parameters;
    const passwordFile = this.#files.path("conf/upstream-password");
    await this.#files.write(passwordFile, passwordFileOf(mode.upstream?.password ?? "") ?? "");
    const addresses = { host, port, socketFolder: this.#files.path("run"), hbaFile, passwordFile };
    await this.#files.write(
      this.file,
      postgresConfig({ ...addresses, upstream: mode.upstream, parameters, archiveCommand, tls }),
    );
    await this.#files.write(hbaFile, accessRules(mode.isOpen, tls?.mode));
    this.#mode = mode;
  }
}
