import { chmod, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Secret } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
// The environment of the operator's own tests: an API server, a kubelet that runs programs, and the controllers.
import {
  type RedisEnvironment,
  startRedisEnvironment,
} from "../../../../operators/middleware/src/testing/redis-environment.ts";
import { expect } from "vitest";
import { postgresPlugin } from "../postgres-plugin.ts";
import type { Login } from "../server/peer-connection.ts";
import { PostgresConnection, type Value } from "../server/postgres-client.ts";
import { RowWriter } from "./row-writer.ts";
import { installTwoVersions } from "./two-versions.ts";
import { installUnsyncedPrograms } from "./unsynced-programs.ts";

const namespace = "default";
const port = 5_432;
/** Small servers, so that several fit a busy machine. */
const small = { shared_buffers: "16MB", max_connections: "40", wal_keep_size: "64MB" };

/** The environment of an App of real PostgreSQL servers, which tests share. */
export class PostgresApp implements AsyncDisposable {
  readonly cluster: RedisEnvironment;
  readonly #programs: string;
  readonly #values: Readonly<Record<string, string>>;
  #writer: RowWriter | undefined;
  #isCreated = false;

  private constructor(cluster: RedisEnvironment, programs: string, values: Readonly<Record<string, string>>) {
    this.cluster = cluster;
    this.#programs = programs;
    this.#values = values;
  }

  /** `hasTwoVersions`: versions 15 and 18 are installed. */
  static async start({ hasTwoVersions = false } = {}): Promise<PostgresApp> {
    const programs = await mkdtemp(join(tmpdir(), "pg-programs-"));
    // The servers have their own user.
    await chmod(programs, 0o755);
    if (hasTwoVersions) await installTwoVersions(programs);
    const values: Readonly<Record<string, string>> = hasTwoVersions
      ? { programFolder: programs }
      : { program: await installUnsyncedPrograms(programs) };
    const agentMain = fileURLToPath(new URL("../../dist/main.js", import.meta.url));
    const cluster = await startRedisEnvironment({ plugins: [postgresPlugin], agentMain, group: "cache-postgres-nodes" });
    return new PostgresApp(cluster, programs, values);
  }

  /** Creates or changes the App, waits until it has settled, and empties its table `rows`. */
  async provision(config: Readonly<Record<string, string>>, replicas: number): Promise<void> {
    const spec = (postgresConfig: Readonly<Record<string, string>>) => ({
      config: { postgresConfig },
      ...this.nodes(replicas),
    });
    if (this.#isCreated) await this.succeeded(await this.cluster.changeApp(spec(config)));
    else {
      const [plugin, runtime] = [
        { name: "postgres", version: "1.0.0" },
        { name: "postgres", version: "15" },
      ];
      await this.cluster.createApp({ plugin, runtime, ...spec({ ...small, ...config }) });
      await this.cluster.settled(1);
      this.#isCreated = true;
    }
    await this.query(await this.cluster.primary(), "CREATE TABLE IF NOT EXISTS public.rows (id text PRIMARY KEY)");
    await this.query(await this.cluster.primary(), "TRUNCATE public.rows");
  }

  /** The part of the App's spec with its servers. */
  nodes(
    replicas: number,
    highAvailability?: { readonly quorum: boolean },
  ): { readonly components: { name: string; groups: { name: string }[] }[] } {
    const values = this.#values;
    const group = {
      name: "nodes",
      replicas,
      storage: { size: "256Mi" },
      values,
      ...(highAvailability && { highAvailability }),
    };
    return { components: [{ name: "postgres", groups: [group] }] };
  }

  /** Changes the version, and waits until the plan has ended. Resolves to its outcome and the error of its task. */
  async changeVersion(version: string): Promise<{ readonly outcome: string | undefined; readonly error: string }> {
    // A version that has failed is only tried again after another change.
    const { status: current } = await this.cluster.group();
    await this.cluster.changeApp({ runtime: { name: "postgres", version: current?.currentVersion?.split(".")[0] ?? "" } });
    const generation = await this.cluster.changeApp({ runtime: { name: "postgres", version } });
    const { status } = await this.cluster.untilApp(
      ({ status: each }) => each?.plan?.generation === generation && each.plan.outcome !== undefined,
    );
    return { outcome: status?.plan?.outcome, error: status?.plan?.tasks.find(({ error }) => error)?.error ?? "" };
  }

  /** Waits until the plan of a generation has ended, and succeeded. */
  async succeeded(generation: number): Promise<void> {
    const { status } = await this.cluster.untilApp(
      ({ status: each }) => each?.plan?.generation === generation && each.plan.outcome !== undefined,
    );
    expect(status?.plan?.outcome, JSON.stringify(status?.plan)).toBe("Succeeded");
  }

  /** What a client finds in a Secret of the App. */
  async login(name = "cache-access"): Promise<Login> {
    const { data = {} } = await this.cluster.client.get(Secret, { namespace, name });
    const read = (key: string): string => Buffer.from(data[key] ?? "", "base64").toString();
    return { user: read("username") || "postgres", password: read("password") };
  }

  /** Runs a statement on a server of the App, or of another one. */
  async query(
    host: string,
    text: string,
    values: readonly Value[] = [],
    app?: string,
  ): Promise<readonly Readonly<Record<string, Value>>[]> {
    const login = await this.login(app && `${app}-access`);
    await using connection = await PostgresConnection.open({ host, port, ...login, timeoutMs: 20_000 });
    return await connection.run(text, values);
  }

  /** All rows of the table. */
  async rows(host?: string, app?: string): Promise<readonly Value[]> {
    const found = await this.query(host ?? (await this.cluster.primary()), "SELECT id FROM public.rows ORDER BY id", [], app);
    return found.map(({ id }) => id ?? null);
  }

  /** Inserts a row on the primary. */
  async insert(id: string): Promise<void> {
    await this.query(await this.cluster.primary(), "INSERT INTO public.rows VALUES ($1)", [id]);
  }

  async hosts(): Promise<readonly string[]> {
    return (await this.cluster.pods()).flatMap((pod) => pod.status?.podIP ?? []);
  }

  /** Process id of the primary's server. */
  async serverPid(): Promise<number> {
    const text = "SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1) AS pid";
    const [row] = await this.query(await this.cluster.primary(), text);
    return Number(row?.["pid"]);
  }

  /** Starts a writer, and waits until it writes. */
  async startWriter(): Promise<RowWriter> {
    const writer = new RowWriter(() => this.hosts(), await this.login(), systemClock);
    this.#writer = writer;
    await expect.poll(() => writer.count, { timeout: 60_000 }).toBeGreaterThan(100);
    return writer;
  }

  /** Stops the writer of the current test, if there is one. */
  async stopWriter(): Promise<void> {
    await this.#writer?.stop();
    this.#writer = undefined;
  }

  /** Stops a writer, and returns the acknowledged rows that the primary does not have. */
  async lostRows(writer: RowWriter): Promise<{ readonly lost: readonly string[]; readonly written: number }> {
    const { acknowledged } = await writer.stop();
    const stored = new Set(await this.rows());
    return { lost: acknowledged.filter((row) => !stored.has(row)), written: acknowledged.length };
  }

  /** Makes the upgrade of data to version 18 fail, but not its check. */
  async breakCopy(): Promise<void> {
    const program = join(this.#programs, "18/bin/pg_resetwal");
    await rename(program, `${program}.real`);
    const script = `case "$*" in *--next-wal-file*) echo broken >&2; exit 1 ;; esac\nexec "$0.real" "$@"`;
    await writeFile(program, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  }

  /** Reverts {@link breakCopy}. */
  async repairCopy(): Promise<void> {
    const program = join(this.#programs, "18/bin/pg_resetwal");
    await rename(`${program}.real`, program);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stopWriter();
    await this.cluster[Symbol.asyncDispose]();
    await rm(this.#programs, { recursive: true, force: true });
  }
}
