import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { AgentError } from "@keelson/middleware-agent";
import { freeBytesOf, spaceProblem } from "../backup/volume-space.ts";
import { parseSegment, nameOf } from "../log/log-position.ts";
import { superuser } from "../server/postgres-client.ts";
import { requireTool, runTool } from "../server/run-tool.ts";
import type { ServerFiles } from "../server/server-files.ts";
import { type ControlData, parseControlData } from "./control-data.ts";
import { upgradeProblem } from "./tool-problem.ts";

/** The directories of the programs of both versions. */
export interface Programs {
  readonly old: string;
  readonly next: string;
}

/** Only this machine's user can reach the socket: its directory is closed to others. */
const localRules = `local all ${superuser} trust\n`;
const startTimeoutS = 600;

/** The copy of a server's data in the format of a later major version, in its own directory. The data itself is only read. */
export class UpgradedCluster {
  readonly #files: ServerFiles;
  readonly #programs: Programs;
  readonly #signal: AbortSignal;

  constructor(files: ServerFiles, programs: Programs, signal: AbortSignal) {
    this.#files = files;
    this.#programs = programs;
    this.#signal = signal;
  }

  /** Where the copy is. */
  get path(): string {
    return join(this.#files.data.upgrade, "data");
  }

  /** Creates an empty cluster. Rejects if the volume has no room for a copy of the data. */
  async create(): Promise<ControlData> {
    const { data } = this.#files;
    const problem = spaceProblem(await freeBytesOf(this.#files.home), await sizeOf(data.path));
    if (problem !== undefined) throw new AgentError("InvalidConfig", problem);
    const control = parseControlData(await this.#run("old", "pg_controldata", [data.path]));
    await this.remove();
    await this.#files.createFolder(data.upgrade);
    const options = [`--pgdata=${this.path}`, `--username=${superuser}`, "--encoding=UTF8", "--no-locale", "--auth=trust"];
    const help = control.hasChecksums ? "" : await this.#run("next", "initdb", ["--help"]);
    const checksums = control.hasChecksums
      ? ["--data-checksums"]
      : help.includes("--no-data-checksums")
        ? ["--no-data-checksums"]
        : [];
    await this.#run("next", "initdb", [...options, ...checksums]);
    await this.#writeRules(this.path);
    return control;
  }

  /** The message of the next version about parameters that it would not start with. */
  async problemOf(parameters: Readonly<Record<string, string>>): Promise<string | undefined> {
    const settings = Object.entries(parameters).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
    const args = ["-D", this.path, "-C", "data_directory", ...settings];
    const { exitCode, stderr } = await runTool(join(this.#programs.next, "postgres"), args, this.#files.tool);
    const fatal = stderr.split("\n").flatMap((line) => /(?:FATAL|ERROR): +(.*)$/.exec(line)?.[1] ?? []);
    return exitCode === 0 ? undefined : fatal.join("; ") || stderr.trim().slice(-500);
  }

  /** Runs `pg_upgrade`. With `isCheck` it changes nothing, and the server of the old data may run. Rejects with the reason. */
  async upgrade(isCheck: boolean): Promise<void> {
    const { data, path } = { data: this.#files.data, path: (name: string) => this.#files.path(name) };
    const folders = [`--old-datadir=${data.path}`, `--new-datadir=${this.path}`, `--socketdir=${path("run")}`];
    const programs = [`--old-bindir=${this.#programs.old}`, `--new-bindir=${this.#programs.next}`];
    const settings = isCheck ? ["--check"] : [`--old-options=${this.#oldSettings}`];
    const args = [...folders, ...programs, `--username=${superuser}`, ...settings];
    const options = { ...this.#files.tool, cwd: data.upgrade, signal: this.#signal };
    const result = await runTool(join(this.#programs.next, "pg_upgrade"), args, options);
    if (result.exitCode !== 0) throw new AgentError("InvalidConfig", await upgradeProblem(result));
  }

  /** Applies the log of data whose server was killed: `pg_upgrade` needs a clean shutdown. */
  async recover(): Promise<void> {
    const { data } = this.#files;
    await rm(join(data.path, "standby.signal"), { force: true });
    const log = join(data.upgrade, "recovery.log");
    const settings = `${this.#oldSettings} -c listen_addresses= -c unix_socket_directories='${this.#files.path("run")}'`;
    const control = ["-D", data.path, "-w", "-t", String(startTimeoutS)];
    await this.#run("old", "pg_ctl", ["start", ...control, "-l", log, "-o", settings]);
    await this.#run("old", "pg_ctl", ["stop", ...control, "-m", "fast"]);
  }

  /** Begins a timeline later than that of the old data, so that files of the log never have the name of an earlier one. */
  async beginTimeline({ timeline }: ControlData): Promise<void> {
    const { segment } = parseControlData(await this.#run("next", "pg_controldata", [this.path]));
    const last = parseSegment(segment);
    if (last === undefined) throw new AgentError("ProgramExited", `unexpected name of a log segment: ${segment}`);
    const next = { timeline: timeline + 1, number: last.number + 1 };
    await this.#run("next", "pg_resetwal", [`--next-wal-file=${nameOf(next)}`, this.path]);
    const history = `${nameOf(next).slice(0, 8)}.history`;
    // It has no ancestors: the log before is of another cluster.
    await this.#files.write(join(this.path, "pg_wal", history), "# upgraded\n", { isDurable: true });
  }

  /** Removes the copy. */
  async remove(): Promise<void> {
    await rm(this.#files.data.upgrade, { recursive: true, force: true });
  }

  /**
   * Settings of the server of the old data. Its log must not say that settings have become lower: replicas would stop to apply it, if the
   * programs of the old version return. It must neither archive its log nor wait for replicas.
   */
  get #oldSettings(): string {
    return `-c config_file='${this.#files.path("conf/postgresql.conf")}' -c archive_mode=off -c synchronous_standby_names=`;
  }

  #writeRules(folder: string): Promise<void> {
    return this.#files.write(join(folder, "pg_hba.conf"), localRules);
  }

  #run(version: keyof Programs, name: string, args: readonly string[]): Promise<string> {
    return requireTool(join(this.#programs[version], name), args, { ...this.#files.tool, signal: this.#signal });
  }
}

/** Bytes of all files in a directory. */
async function sizeOf(folder: string): Promise<number> {
  let total = 0;
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const { size } = await stat(join(entry.parentPath, entry.name)).catch(() => ({ size: 0 }));
    total += size;
  }
  return total;
}
