import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import { reserveAddressBlock } from "@keelson/cluster/testing";
import { silentLogger } from "@keelson/controller";
import type { ProgramTls } from "@keelson/middleware-agent";
import type { ContractPod } from "@keelson/middleware-agent/testing";
import { PostgresEngine } from "../postgres-engine.ts";
import { PostgresConnection, PostgresError, type PostgresTls, type Value } from "../server/postgres-client.ts";
import { roleOfClient } from "./app-client.ts";
import { installUnsyncedPrograms } from "./unsynced-programs.ts";

const port = 5_432;
/** Password of the servers. */
export const password = 'it\'s "secret" \\ ';
/** Parameters of the servers. */
export const parameters = { shared_buffers: "16MB", max_connections: "20" };

/** A PostgreSQL server with its engine, on its own directory. */
export class PostgresPod implements ContractPod {
  readonly host: string;
  readonly #folder: string;
  readonly #program: string;
  readonly tls: ProgramTls | undefined;
  engine: PostgresEngine;

  /** `program`: path of `postgres`. */
  constructor(host: string, folder: string, program: string, tls?: ProgramTls) {
    this.tls = tls;
    this.host = host;
    this.#folder = folder;
    this.#program = program;
    this.engine = this.#create();
  }

  async start(): Promise<void> {
    await mkdir(this.#folder, { recursive: true });
    await writeFile(join(this.#folder, "parameters.json"), JSON.stringify({ hash: "hash-1", parameters }));
    await this.engine.start();
  }

  async kill(): Promise<void> {
    const { engine } = this;
    const { pid = "" } = (await engine.role()).info;
    // Process 0 is the own group.
    if (pid === "") throw new Error("kill: the server does not run");
    process.kill(Number(pid), "SIGKILL");
    await engine.ended;
    await engine.stop({ timeoutMs: 5_000, force: true });
  }

  async crash(): Promise<void> {
    const { role } = await this.engine.role();
    if (role !== "stopped") await this.kill();
    this.engine = this.#create();
    await this.engine.start();
  }

  async write(key: string): Promise<boolean> {
    const create = "CREATE TABLE IF NOT EXISTS public.keys (key text PRIMARY KEY)";
    return (await this.run([[create], ["INSERT INTO public.keys VALUES ($1)", key]])) !== undefined;
  }

  async canLogIn(user: string, text: string): Promise<boolean> {
    const base = user === "default" ? "postgres" : user;
    const { host } = this;
    for (const login of [base, `${base}_b`])
      if ((await roleOfClient({ host, user: login, password: text })) === base) return true;
    return false;
  }

  async completeLog(): Promise<void> {
    await this.run([["SELECT pg_switch_wal()"]]);
  }

  async has(key: string): Promise<boolean> {
    return ((await this.run([["SELECT key FROM public.keys WHERE key = $1", key]])) ?? []).length > 0;
  }

  #create(): PostgresEngine {
    const { host, tls } = this;
    return new PostgresEngine({
      ...(tls === undefined ? {} : { tls }),
      ...{ program: this.#program, host, port, password, podName: host, flags: {}, clock: systemClock, log: silentLogger },
      configFile: join(this.#folder, "parameters.json"),
      dataDir: this.#folder,
    });
  }

  /** Connects as a client. Rejects with a `PostgresError`. */
  connect(tls: PostgresTls | undefined): Promise<PostgresConnection> {
    return PostgresConnection.open({ host: this.host, port, password, tls, timeoutMs: 20_000 });
  }

  /** Resolves to the rows of the last statement, or to undefined if the server rejects the client or a statement. */
  async run(statements: readonly (readonly [string, ...Value[]])[]): Promise<readonly object[] | undefined> {
    try {
      await using connection = await this.connect(this.tls);
      let rows: readonly object[] = [];
      for (const [text, ...values] of statements) rows = await connection.run(text, values);
      return rows;
    } catch (error) {
      if (error instanceof PostgresError) return undefined;
      throw error;
    }
  }
}

/** Servers with their engines, on addresses and directories of their own. */
export class PostgresPods {
  readonly #folder: string;
  readonly #program: string;
  readonly #ending = new Map<readonly ContractPod[], () => Promise<void>>();

  private constructor(folder: string, program: string) {
    this.#folder = folder;
    this.#program = program;
  }

  static async install(): Promise<PostgresPods> {
    const folder = await mkdtemp(join(tmpdir(), "pg-"));
    // The servers have their own user.
    await chmod(folder, 0o755);
    return new PostgresPods(folder, await installUnsyncedPrograms(join(folder, "programs")));
  }

  /** `tls`: of a Pod by its index. */
  async start(
    count: number,
    tls: (index: number) => ProgramTls | undefined = () => undefined,
  ): Promise<readonly PostgresPod[]> {
    const folder = await mkdtemp(join(this.#folder, "pods-"));
    await chmod(folder, 0o755);
    const block = await reserveAddressBlock(folder);
    const pods: PostgresPod[] = [];
    for (let index = 0; index < count; index++) {
      const pod = new PostgresPod(
        `${block.podNetwork}.0.${index + 10}`,
        join(folder, String(index)),
        this.#program,
        tls(index),
      );
      await pod.start();
      pods.push(pod);
    }
    this.#ending.set(pods, async () => {
      await block.release();
      await rm(folder, { recursive: true, force: true });
    });
    return pods;
  }

  async stop(pods: readonly ContractPod[]): Promise<void> {
    await Promise.all(pods.map(({ engine }) => engine.stop({ timeoutMs: 10_000, force: true })));
    await this.#ending.get(pods)?.();
  }

  uninstall(): Promise<void> {
    return rm(this.#folder, { recursive: true, force: true });
  }
}
