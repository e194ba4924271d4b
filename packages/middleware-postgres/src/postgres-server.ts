import { existsSync, readFileSync } from "node:fs";
import { chmod, chown, mkdir, readlink, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { sleep } from "@keelson/api-machinery/time";
import { AgentError, type EngineOptions, type Outcome, ServerProcess } from "@keelson/middleware-agent";
import { findPrograms, findUser } from "./installation.ts";
import { LocalConnection, PostgresError, superuser } from "./postgres-client.ts";
import { accessRules, connectionString, postgresConfig, type Upstream } from "./postgres-config.ts";
import { requireTool, runTool, type ToolOptions } from "./run-tool.ts";

const startTimeoutMs = 60_000;
/** Statements of the agent may wait for a slow disk. */
const statementTimeoutMs = 10_000;
const leftoverTimeoutMs = 15_000;
const pollMs = 20;

/** Settings that a standby needs at least as high as its primary had them, with their names in the control file and their defaults. */
const standbyMinima = [
  { name: "max_connections", label: "max_connections setting", fallback: 100 },
  { name: "max_worker_processes", label: "max_worker_processes setting", fallback: 8 },
  { name: "max_wal_senders", label: "max_wal_senders setting", fallback: 10 },
  { name: "max_prepared_transactions", label: "max_prepared_xacts setting", fallback: 0 },
  { name: "max_locks_per_transaction", label: "max_locks_per_xact setting", fallback: 64 },
] as const;

/** How a server is started. */
export interface StartMode {
  /** A standby without an upstream keeps its data as it is. */
  readonly isStandby: boolean;
  readonly upstream?: Upstream;
  /** Whether clients and replicas may connect. */
  readonly isOpen: boolean;
}

/** The files and the process of one PostgreSQL server. It can be started and stopped repeatedly, and decides nothing. */
export class PostgresServer {
  readonly connection: LocalConnection;
  readonly #options: EngineOptions;
  readonly #user: ReturnType<typeof findUser>;
  readonly #programs: string;
  /** Folder of everything below, owned by the user of the server. */
  readonly #home: string;
  #process: ServerProcess | undefined;
  #parameters: Readonly<Record<string, string>> = {};
  #mode: StartMode = { isStandby: true, isOpen: false };
  /** Whether a setting is higher than its parameter, for {@link standbyMinima}. */
  #isRaised = false;
  #reportEnd: (message: string) => void = () => undefined;
  readonly ended = new Promise<string>((resolve) => {
    this.#reportEnd = resolve;
  });

  constructor(options: EngineOptions) {
    this.#options = options;
    this.#user = findUser(options.flags["run-as"] ?? "");
    this.#programs = findPrograms(options.program, options.flags["program-version"] ?? "");
    this.#home = join(options.dataDir, "postgres");
    const { port, password } = options;
    this.connection = new LocalConnection({ host: join(this.#home, "run"), port, password, timeoutMs: statementTimeoutMs });
  }

  get isRunning(): boolean {
    return this.#process !== undefined;
  }

  get isOpen(): boolean {
    return this.#mode.isOpen && this.isRunning;
  }

  get isRaised(): boolean {
    return this.#isRaised;
  }

  get hasData(): boolean {
    return existsSync(join(this.#dataFolder, "PG_VERSION"));
  }

  get #dataFolder(): string {
    return join(this.#home, "data");
  }

  get #tool(): ToolOptions {
    return { cwd: this.#home, user: this.#user, password: this.#options.password };
  }

  /** Prepares the folders, and ends a server that an earlier agent left behind. */
  async prepare(parameters: Readonly<Record<string, string>>): Promise<void> {
    this.#parameters = parameters;
    for (const folder of [this.#home, join(this.#home, "run"), join(this.#home, "conf")]) {
      await mkdir(folder, { recursive: true });
      await chmod(folder, 0o700);
      if (this.#user !== undefined) await chown(folder, this.#user.uid, this.#user.gid);
    }
    await this.#endLeftover();
    // Left by an agent that was killed while it copied data.
    await rm(join(this.#home, "new"), { recursive: true, force: true });
  }

  /** Version of the programs, such as `15.18`. */
  async version(): Promise<string> {
    const text = await requireTool(join(this.#programs, "postgres"), ["--version"], this.#tool);
    return /\d+(\.\d+)*/.exec(text)?.[0] ?? "";
  }

  /** Creates an empty cluster with data checksums. */
  async initialize(): Promise<void> {
    const file = join(this.#home, "conf/password");
    await this.#write(file, this.#options.password);
    const target = join(this.#home, "new");
    await rm(target, { recursive: true, force: true });
    const options = ["--data-checksums", "--encoding=UTF8", "--no-locale", "--auth=scram-sha-256", `--pwfile=${file}`];
    await requireTool(
      join(this.#programs, "initdb"),
      [`--pgdata=${target}`, `--username=${superuser}`, ...options],
      this.#tool,
    );
    await rm(file);
    await rename(target, this.#dataFolder);
  }

  /** Replaces all data by a copy of another server's. The server must not run. */
  async clone(upstream: Upstream, signal: AbortSignal): Promise<void> {
    const target = join(this.#home, "new");
    await rm(target, { recursive: true, force: true });
    const args = [`--pgdata=${target}`, "--wal-method=stream", "--checkpoint=fast", `--dbname=${connectionString(upstream)}`];
    await requireTool(join(this.#programs, "pg_basebackup"), args, { ...this.#tool, signal });
    await rm(this.#dataFolder, { recursive: true, force: true });
    await rename(target, this.#dataFolder);
  }

  /** Discards what another server does not have. The server must have been stopped cleanly. */
  async rewind(upstream: Upstream, signal: AbortSignal): Promise<void> {
    const source = `--source-server=${connectionString(upstream)} dbname='postgres'`;
    const args = [`--target-pgdata=${this.#dataFolder}`, source, `--config-file=${this.#configFile}`];
    await requireTool(join(this.#programs, "pg_rewind"), args, { ...this.#tool, signal });
  }

  /** Starts the server and waits until it accepts its agent. Rejects with its output if it ends before. */
  async start(mode: StartMode): Promise<void> {
    await this.#writeMode(mode);
    const { clock, log } = this.#options;
    const signalFile = join(this.#dataFolder, "standby.signal");
    if (mode.isStandby) await this.#write(signalFile, "");
    else await rm(signalFile, { force: true });
    const child = new ServerProcess(join(this.#programs, "postgres"), clock, {
      stopSignal: "SIGINT",
      killsChildren: true,
      ...(this.#user && { user: this.#user }),
    });
    const pid = child.start(["-D", this.#dataFolder, "-c", `config_file=${this.#configFile}`], this.#home);
    this.#process = child;
    // If the agent dies, so does the server: it could not be fenced.
    child.guard(undefined);
    try {
      await this.#waitUntilReady(child);
    } catch (error) {
      this.#process = undefined;
      child.kill();
      throw error;
    }
    void child.ended.then((message) => {
      if (this.#process !== child) return;
      this.#process = undefined;
      this.#reportEnd(message);
    });
    log.info({ pid, ...mode, upstream: mode.upstream?.host }, "PostgreSQL is ready");
  }

  /** Changes who may connect and whom a standby follows, without a restart. */
  async change(mode: StartMode): Promise<void> {
    await this.#writeMode(mode);
    await this.reloadFiles();
  }

  /** Writes parameters to the configuration. */
  async setParameters(parameters: Readonly<Record<string, string>>): Promise<void> {
    this.#parameters = parameters;
    await this.#writeMode(this.#mode);
  }

  /** Makes the server read its files again, and waits until it has. */
  async reloadFiles(): Promise<void> {
    const loaded = "SELECT pg_conf_load_time()::text AS time";
    const before = (await this.connection.one(loaded))["time"];
    await this.connection.one("SELECT pg_reload_conf()");
    while ((await this.connection.one(loaded))["time"] === before) await sleep(this.#options.clock, pollMs);
  }

  /** The server's own message about parameters that it would not start with. */
  async problemOf(parameters: Readonly<Record<string, string>>): Promise<string | undefined> {
    if (!this.hasData) return undefined;
    const settings = Object.entries(parameters).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
    const args = ["-D", this.#dataFolder, "-C", "data_directory", ...settings];
    const { exitCode, stderr } = await runTool(join(this.#programs, "postgres"), args, this.#tool);
    if (exitCode === 0) return undefined;
    const lines = stderr.split("\n").map((line) => line.replace(/^.*?(FATAL|ERROR|HINT|DETAIL):\s+/, "$1: "));
    const messages = lines.filter((line) => /^(FATAL|ERROR|HINT|DETAIL): /.test(line));
    return (messages.length > 0 ? messages.map((line) => line.replace(/^[A-Z]+: /, "")) : lines).join("; ").trim();
  }

  /** Shuts down: clients are disconnected, and replicas get all data. After the timeout the server ends immediately; it recovers when it starts again. */
  async stop(timeoutMs: number): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    await this.connection.close();
    if (child === undefined) return;
    const outcome = await child.stop({ timeoutMs, force: false });
    if (!outcome.ok) await child.stop({ timeoutMs: 0, force: true });
  }

  /** Ends the server as its Pod ends. */
  async end(timeoutMs: number, force: boolean): Promise<Outcome> {
    const child = this.#process;
    if (child === undefined) return { ok: true };
    const outcome = await child.stop({ timeoutMs, force });
    if (outcome.ok) this.#process = undefined;
    return outcome;
  }

  guard(timeoutMs: number | undefined): void {
    this.#process?.guard(timeoutMs);
  }

  get #configFile(): string {
    return join(this.#home, "conf/postgresql.conf");
  }

  async #writeMode(mode: StartMode): Promise<void> {
    const { host, port } = this.#options;
    const hbaFile = join(this.#home, "conf/pg_hba.conf");
    const parameters = mode.isStandby ? await this.#withMinima() : this.#parameters;
    if (!this.isRunning) this.#isRaised = parameters !== this.#parameters;
    const socketFolder = join(this.#home, "run");
    const config = postgresConfig({ host, port, socketFolder, hbaFile, upstream: mode.upstream, parameters });
    await this.#write(this.#configFile, config);
    await this.#write(hbaFile, accessRules(mode.isOpen));
    this.#mode = mode;
  }

  /** The parameters, raised to what the data of a standby needs. */
  async #withMinima(): Promise<Readonly<Record<string, string>>> {
    const control = await requireTool(join(this.#programs, "pg_controldata"), [this.#dataFolder], this.#tool);
    const raised = standbyMinima.flatMap(({ name, label, fallback }) => {
      const needed = Number(new RegExp(`^${label}:\\s+(\\d+)`, "m").exec(control)?.[1] ?? 0);
      return Number(this.#parameters[name] ?? fallback) < needed ? [[name, String(needed)] as const] : [];
    });
    return raised.length === 0 ? this.#parameters : { ...this.#parameters, ...Object.fromEntries(raised) };
  }

  async #write(file: string, text: string): Promise<void> {
    await writeFile(`${file}.new`, text, { mode: 0o600 });
    if (this.#user !== undefined) await chown(`${file}.new`, this.#user.uid, this.#user.gid);
    await rename(`${file}.new`, file);
  }

  async #waitUntilReady(child: ServerProcess): Promise<void> {
    const { clock } = this.#options;
    const deadline = clock.monotonic() + startTimeoutMs;
    for (;;) {
      if (child.failure !== undefined) throw new AgentError("ProgramExited", child.failure);
      try {
        await this.connection.one("SELECT 1");
        return;
      } catch (error) {
        if (!(error instanceof PostgresError) || clock.monotonic() > deadline) throw error;
      }
      await sleep(clock, pollMs);
    }
  }

  async #endLeftover(): Promise<void> {
    const { clock, log } = this.#options;
    const deadline = clock.monotonic() + leftoverTimeoutMs;
    for (let attempt = 0; ; attempt++) {
      const pid = await this.#findLeftover();
      if (pid === undefined) return;
      if (attempt === 0) log.warn({ pid }, "shutting down a server that an earlier agent left behind");
      if (clock.monotonic() > deadline) throw new AgentError("PortInUse", `process ${pid} of an earlier agent does not end`);
      try {
        process.kill(pid, attempt === 0 ? "SIGINT" : clock.monotonic() > deadline - leftoverTimeoutMs / 2 ? "SIGQUIT" : 0);
      } catch {
        // It has ended meanwhile.
      }
      await sleep(clock, 50);
    }
  }

  async #findLeftover(): Promise<number | undefined> {
    try {
      const [line = ""] = readFileSync(join(this.#dataFolder, "postmaster.pid"), "utf8").split("\n");
      const pid = Number(line);
      // The id may belong to another process by now.
      return pid > 0 && (await readlink(`/proc/${pid}/cwd`)) === this.#dataFolder ? pid : undefined;
    } catch {
      return undefined;
    }
  }
}
