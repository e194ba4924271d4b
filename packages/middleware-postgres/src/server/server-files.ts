import { chmod, chown, mkdir, rename, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { AgentError, type EngineOptions, type ProgramTls } from "@keelson/middleware-agent";
import { DataFolder, syncFolder } from "../data/data-folder.ts";
import { debianFolder, findPrograms, findUser, majorOf } from "./installation.ts";
import type { ServerTls } from "./postgres-config.ts";
import { type ProgramUser, requireTool, type ToolOptions } from "./run-tool.ts";

/** The files and programs of a server. */
export class ServerFiles {
  /** Directory of everything below, owned by the user of the server. */
  readonly home: string;
  readonly data: DataFolder;
  readonly user: ProgramUser;
  /** Directory of the programs of this version. */
  readonly programs: string;
  /** Directory with a directory per major version. */
  readonly installations: string;
  readonly #wantedVersion: string;

  constructor({ flags, program, dataDir }: Pick<EngineOptions, "flags" | "program" | "dataDir">) {
    this.user = findUser(flags["run-as"] ?? "");
    this.#wantedVersion = flags["program-version"] ?? "";
    this.installations = flags["program-folder"] || debianFolder;
    this.programs = findPrograms(program, this.#wantedVersion, this.installations);
    this.home = join(dataDir, "postgres");
    this.data = new DataFolder(this.home);
  }

  /** Options of tools. */
  get tool(): ToolOptions {
    return { cwd: this.home, user: this.user };
  }

  /** Path of a program, such as `initdb`. */
  program(name: string): string {
    return join(this.programs, name);
  }

  /** Throws if the programs are not of the major version of the App. */
  requireVersion(version: string): void {
    const wanted = majorOf(this.#wantedVersion);
    if (wanted === "" || wanted === majorOf(version)) return;
    const message = `${this.programs} has the programs of version ${version}, not ${wanted}: install those in ${join(this.installations, wanted, "bin")}`;
    throw new AgentError("InvalidConfig", message);
  }

  /** The output of `pg_controldata`. */
  controlData(): Promise<string> {
    return requireTool(this.program("pg_controldata"), [this.data.path], this.tool);
  }

  /** Path of a file in {@link home}. */
  path(name: string): string {
    return join(this.home, name);
  }

  /** Creates a directory that only the user of the server can enter. */
  async createFolder(folder: string): Promise<void> {
    await mkdir(folder, { recursive: true });
    await chmod(folder, 0o700);
    await this.own(folder);
  }

  /** Writes a file atomically. `isDurable`: it survives a crash of the machine. */
  async write(file: string, text: string, { isDurable = false } = {}): Promise<void> {
    await writeFile(`${file}.new`, text, { mode: 0o600, flush: isDurable });
    await this.own(`${file}.new`);
    await rename(`${file}.new`, file);
    if (isDurable) await syncFolder(dirname(file));
  }

  /** Path of the file with the authorities that this server trusts. */
  get authoritiesFile(): string {
    return this.path("conf/ca.crt");
  }

  /** Writes the current certificates, which the server reads when it starts and with its configuration. Undefined without TLS. */
  async writeCertificates(tls: ProgramTls | undefined): Promise<ServerTls | undefined> {
    if (tls === undefined) return undefined;
    const { authorities, certificate, key } = tls.certificates.current;
    const files = { mode: tls.mode, certificateFile: this.path("conf/server.crt"), keyFile: this.path("conf/server.key") };
    await this.write(this.authoritiesFile, authorities);
    await this.write(files.certificateFile, certificate);
    await this.write(files.keyFile, key);
    return files;
  }

  /** Makes the user of the server the owner of a file. */
  async own(path: string): Promise<void> {
    if (this.user !== undefined) await chown(path, this.user.uid, this.user.gid);
  }
}
