import { rm } from "node:fs/promises";
import { join } from "node:path";
import { sleep } from "@keelson/api-machinery/time";
import { AgentError, type EngineOptions, killProcessesIn, type Outcome, ServerProcess } from "@keelson/middleware-agent";
import { cloneData, rewindData } from "../data/copy-data.ts";
import { endLeftovers } from "./leftovers.ts";
import { awaitReady } from "./await-ready.ts";
import { LocalConnection } from "./postgres-client.ts";
import type { Login } from "./peer-connection.ts";
import type { Upstream } from "./postgres-config.ts";
import { initializeData } from "../data/initialize-data.ts";
import { majorOf } from "./installation.ts";
import { requireTool } from "./run-tool.ts";
import { ServerConfig, type StartMode } from "./server-config.ts";
import { stateOfProcess } from "./process-state.ts";
import { openSession, SessionProbe } from "./session-probe.ts";
import { StoppedProcesses } from "./stopped-processes.ts";
import { ServerFiles } from "./server-files.ts";

/** `endingStartMs`: time that a start has once its Pod ends. */
const [endingStartMs, reloadTimeoutMs, statementTimeoutMs] = [5_000, 10_000, 10_000];
const pollMs = 20;

/** The files and the process of one PostgreSQL server. It can be started and stopped repeatedly, and decides nothing. */
export class PostgresServer {
  readonly connection: LocalConnection;
  readonly files: ServerFiles;
  readonly #options: EngineOptions;
  #process: ServerProcess | undefined;
  /** Process id of {@link #process}. */
  #pid: number | undefined;
  /** Kills what is left of a server that has exited. */
  #cleaning: Promise<void> = Promise.resolve();
  /** Deadline of a start that is in progress while the Pod ends. */
  #endsBy = Number.POSITIVE_INFINITY;
  /** When the guard kills a server that accepts writes, by the clock. */
  #guardDeadline: number | undefined;
  readonly #config: ServerConfig;
  readonly #stopped: StoppedProcesses;
  readonly #sessions: SessionProbe;
  #writers: readonly number[] = [];
  /** The command of the running server. */
  #loadedArchiveCommand: string | undefined;
  /** Version of the programs. */
  #version = "";
  #reportEnd: (message: string) => void = () => undefined;
  readonly ended = new Promise<string>((resolve) => {
    this.#reportEnd = resolve;
  });

  constructor(options: EngineOptions) {
    this.#options = options;
    this.files = new ServerFiles(options);
    this.#config = new ServerConfig(options, this.files);
    const { port, password } = options;
    this.#stopped = new StoppedProcesses({ ...options, stateOf: stateOfProcess, end: () => this.#process?.kill() });
    this.connection = new LocalConnection({ host: this.files.path("run"), port, password, timeoutMs: statementTimeoutMs });
    this.#sessions = new SessionProbe(options.clock, () => openSession(this.connection.address));
  }

  /** The parameters of the App. */
  get parameters(): Readonly<Record<string, string>> {
    return this.#config.parameters;
  }

  get isRunning(): boolean {
    return this.#process !== undefined;
  }

  get isOpen(): boolean {
    return this.#config.mode.isOpen && this.isRunning;
  }

  get isRaised(): boolean {
    return this.#config.isRaised;
  }

  get hasData(): boolean {
    return this.files.data.hasData;
  }

  /** Whether there is data that the programs can use. */
  get hasUsableData(): boolean {
    return this.hasData && !this.isForeign;
  }

  /** Whether the data is of another major version than the programs. */
  get isForeign(): boolean {
    return this.hasData && this.#version !== "" && this.files.data.version !== majorOf(this.#version);
  }

  /** Whether a rewind was interrupted, so that the data must be copied. */
  get isIncomplete(): boolean {
    return this.files.data.isIncomplete;
  }

  /** The server at an address, as one to follow with a login. */
  upstreamOf(host: string, login: Login): Upstream {
    const { port, podName: name, tls } = this.#options;
    return { host, port, ...login, name, ...(tls && { tls: { mode: tls.mode, authoritiesFile: this.files.authoritiesFile } }) };
  }

  /** Prepares the directories, and ends a server that an earlier agent left behind. */
  async prepare(parameters: Readonly<Record<string, string>>): Promise<void> {
    this.#config.parameters = parameters;
    const { files } = this;
    const { data } = files;
    for (const folder of [files.home, files.path("run"), files.path("conf")]) await files.createFolder(folder);
    // Tools that copy the data of another server need the authorities before this one runs.
    await files.writeCertificates(this.#options.tls);
    await endLeftovers(files.home, data.path, [data.incoming], this.#options);
    await data.recover();
  }

  /** Version of the programs, such as `15.18`. */
  async version(): Promise<string> {
    const text = await requireTool(this.files.program("postgres"), ["--version"], this.files.tool);
    this.#version = /\d+(\.\d+)*/.exec(text)?.[0] ?? "";
    this.files.requireVersion(this.#version);
    return this.#version;
  }

  /** Creates an empty cluster with data checksums. */
  async initialize(): Promise<void> {
    await initializeData(this.files, this.#options.password);
  }

  /** Replaces all data by a copy of another server's. The server must not run. */
  async clone(upstream: Upstream, signal: AbortSignal): Promise<void> {
    await cloneData(this.files, upstream, signal);
  }

  /** Discards what another server does not have. The server must have been stopped cleanly. The data is complete once the server has started. */
  async rewind(upstream: Upstream, signal: AbortSignal): Promise<void> {
    await rewindData(this.files, this.#config.file, upstream, signal);
  }

  /** Starts the server and waits until it accepts its agent. Rejects with its output if it ends before, or if the signal fires. */
  async start(mode: StartMode, signal?: AbortSignal): Promise<void> {
    await this.#cleaning;
    if (this.isForeign) throw new AgentError("InvalidConfig", `the data is of version ${this.files.data.version}`);
    await this.#writeMode(mode);
    this.#loadedArchiveCommand = this.#config.archiveCommand;
    const { clock, log } = this.#options;
    const signalFile = join(this.files.data.path, "standby.signal");
    if (mode.isStandby) await this.files.write(signalFile, "");
    else await rm(signalFile, { force: true });
    const child = new ServerProcess(this.files.program("postgres"), clock, {
      stopSignal: "SIGINT",
      killsChildren: true,
      ...(this.files.user && { user: this.files.user }),
    });
    this.#writers = [];
    this.#sessions.reset();
    this.#pid = child.start(["-D", this.files.data.path, "-c", `config_file=${this.#config.file}`], this.files.home);
    this.#process = child;
    this.#cleaning = child.exited.then(() => killProcessesIn([this.files.data.path], clock));
    // If the agent dies, so does the server: it could not be fenced. One that accepts writes keeps the deadline of the previous one.
    const deadline = mode.isStandby ? undefined : this.#guardDeadline;
    child.guard(deadline === undefined ? undefined : deadline - clock.monotonic());
    try {
      await awaitReady(child, { clock, connection: this.connection, endsBy: () => this.#endsBy, signal });
      await this.files.data.markComplete();
    } catch (error) {
      this.#process = undefined;
      child.kill();
      await this.#cleaning;
      throw error;
    }
    void child.ended.then(async (message) => {
      await this.#cleaning;
      if (this.#process !== child) return;
      this.#process = undefined;
      this.#reportEnd(message);
    });
    log.info({ pid: this.#pid, ...mode, upstream: mode.upstream?.host }, "PostgreSQL is ready");
  }

  /** Changes who may connect and whom a standby follows, without a restart. */
  async change(mode: StartMode): Promise<void> {
    await this.#writeMode(mode);
    await this.reloadFiles();
  }

  /** Follows the same primary with another login. */
  async setLogin(login: Login): Promise<void> {
    const { mode } = this.#config;
    const { upstream } = mode;
    if (upstream === undefined || !this.isRunning) return;
    if (upstream.user === login.user && upstream.password === login.password) return;
    await this.change({ ...mode, upstream: { ...upstream, ...login } });
  }

  /** Uses the current certificates for later connections. */
  async reloadCertificates(): Promise<void> {
    if (this.isRunning) await this.change(this.#config.mode);
    else await this.files.writeCertificates(this.#options.tls);
  }

  /** Sets the command that archives a segment of the log. Undefined: the log is not archived. */
  async setArchiveCommand(command: string | undefined): Promise<void> {
    this.#config.archiveCommand = command;
    if (!this.isRunning || this.#loadedArchiveCommand === command) return;
    await this.#writeMode(this.#config.mode);
    await this.reloadFiles();
    this.#loadedArchiveCommand = command;
  }

  /** Writes parameters to the configuration. */
  async setParameters(parameters: Readonly<Record<string, string>>): Promise<void> {
    this.#config.parameters = parameters;
    await this.#writeMode(this.#config.mode);
  }

  /** Makes the server read its files again, and waits until it has. Rejects with the server's message if it does not. */
  async reloadFiles(): Promise<void> {
    const loaded = "SELECT pg_conf_load_time()::text AS time";
    const { clock } = this.#options;
    const before = (await this.connection.one(loaded))["time"];
    await this.connection.one("SELECT pg_reload_conf()");
    const deadline = clock.monotonic() + reloadTimeoutMs;
    while ((await this.connection.one(loaded))["time"] === before) {
      if (clock.monotonic() > deadline) throw new AgentError("InvalidConfig", await this.#configProblem());
      await sleep(clock, pollMs);
    }
  }

  async #configProblem(): Promise<string> {
    const { error } = await this.connection.one(
      "SELECT string_agg(concat_ws(': ', name, error), '; ') AS error FROM pg_file_settings WHERE error IS NOT NULL",
    );
    return error ?? `the server did not read its configuration within ${reloadTimeoutMs} ms`;
  }

  /**
   * Shuts down: clients are disconnected, and replicas get all data. After the timeout the server ends immediately; it recovers when it starts again.
   * Resolves to whether it has shut down by itself.
   */
  async stop(timeoutMs: number): Promise<boolean> {
    const child = this.#process;
    if (child !== undefined) await this.#pauseArchive(child);
    this.#process = undefined;
    await this.connection.close();
    if (child === undefined) return true;
    const outcome = await child.stop({ timeoutMs, force: false });
    if (!outcome.ok) await child.stop({ timeoutMs: 0, force: true });
    await this.#cleaning;
    return outcome.ok;
  }

  /** The Pod ends: gives up a start that does not complete soon. */
  interrupt = (): void => void (this.#endsBy = Math.min(this.#endsBy, this.#options.clock.monotonic() + endingStartMs));

  /** Ends the server as its Pod ends. */
  async end(timeoutMs: number, force: boolean): Promise<Outcome> {
    const child = this.#process;
    if (child === undefined) return { ok: true };
    await this.#pauseArchive(child);
    const outcome = await child.stop({ timeoutMs, force });
    if (!outcome.ok) return outcome;
    this.#process = undefined;
    await this.#cleaning;
    return outcome;
  }

  /**
   * Ends the server if its main process, or one of those that write its log and its data, is stopped. Rejects with a `PostgresError` if it
   * does not respond new sessions.
   */
  async verify(writers = this.#writers): Promise<void> {
    this.#writers = writers;
    if (this.#pid !== undefined) await this.#stopped.check([this.#pid, ...writers]);
    await this.#sessions.require();
  }

  guard(timeoutMs: number | undefined): void {
    this.#guardDeadline = timeoutMs === undefined ? undefined : this.#options.clock.monotonic() + timeoutMs;
    this.#process?.guard(timeoutMs);
  }

  /**
   * Clears the archive command before a shutdown, which otherwise repeats a failing command for seconds. The server keeps log that was not
   * archived, and its next start sets the command again.
   */
  async #pauseArchive(child: ServerProcess): Promise<void> {
    if (this.#config.archiveCommand === undefined || child.failure !== undefined) return;
    try {
      await this.#config.write(this.#config.mode, { archiveCommand: "" });
      this.#loadedArchiveCommand = "";
      // Without a connection: a server that does not respond must be stopped all the same.
      if (this.#pid !== undefined) process.kill(this.#pid, "SIGHUP");
    } catch (error) {
      this.#options.log.info({ err: error }, "could not pause the archive of the log");
    }
  }

  #writeMode(mode: StartMode): Promise<void> {
    return this.#config.write(mode, { isStarting: !this.isRunning });
  }
}
