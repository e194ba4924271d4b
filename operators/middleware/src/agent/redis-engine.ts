import { type ChildProcess, spawn } from "node:child_process";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isJsonObject } from "@keelson/api-machinery";
import { type Clock, sleep } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import type { Assignment, Engine, EngineRole, Outcome, ReloadOutcome } from "./engine.ts";
import { readJson, writeJson } from "./json-file.ts";
import { fence, redisConfig } from "./redis-config.ts";
import { connectResp, parseInfo, type RespClient, RespError } from "./resp-client.ts";

/** Options of {@link createRedisEngine}. */
export interface RedisEngineOptions {
  /** `redis-server`, `valkey-server`, or a path. */
  readonly program: string;
  /** Address of the Pod; the server listens there and nowhere else. */
  readonly host: string;
  readonly port: number;
  readonly password: string;
  /** File with `{"hash": ..., "parameters": {...}}`. */
  readonly configFile: string;
  readonly dataDir: string;
  readonly clock: Clock;
  readonly log: Logger;
}

interface Memory {
  readonly role: "primary" | "replica";
  readonly primaryHost: string;
  readonly epoch: number;
}

const commandTimeoutMs = 3_000;
const startTimeoutMs = 60_000;
/** A replica further behind than this is not in sync enough to begin a switchover. */
const mostLagBytes = 16 * 1_048_576;

/** Drives one redis-server (or valkey-server) process. */
export function createRedisEngine(options: RedisEngineOptions): Engine {
  const { program, host, port, password, configFile, dataDir, clock, log } = options;
  const memoryFile = join(dataDir, "keelson-role.json");
  const fenceFile = join(dataDir, "keelson-fence.json");
  let memory: Memory | undefined;
  let parameters: Readonly<Record<string, string>> = {};
  let hash = "";
  let child: ChildProcess | undefined;
  let exited: Promise<void> = Promise.resolve();
  let connection: RespClient | undefined;
  let isStopping = false;
  let sayEnded: (message: string) => void = () => undefined;
  const ended = new Promise<string>((resolve) => {
    sayEnded = resolve;
  });

  const connectTo = (target: string): Promise<RespClient> =>
    connectResp({ host: target, port, password, timeoutMs: commandTimeoutMs, clock });

  async function own(): Promise<RespClient> {
    connection ??= await connectTo(host);
    return connection;
  }

  /** One try on the connection that is there, and one on a new one. */
  async function run(...words: string[]): Promise<ReturnType<RespClient["command"]>> {
    try {
      return await (await own()).command(...words);
    } catch (error) {
      if (!(error instanceof RespError) || error.code === "Refused") throw error;
      connection?.close();
      connection = undefined;
      throw error;
    }
  }

  const info = async (): Promise<Readonly<Record<string, string>>> => parseInfo(await run("INFO"));

  async function remember(next: Memory): Promise<void> {
    await writeJson(memoryFile, next);
    memory = next;
  }

  const minimum = (): string => parameters["min-replicas-to-write"] ?? "0";

  async function start(): Promise<void> {
    await mkdir(dataDir, { recursive: true });
    memory = (await readJson(memoryFile)) as Memory | undefined;
    const wanted = await readJson(configFile);
    if (!isJsonObject(wanted) || !isJsonObject(wanted.parameters)) throw new Error(`${configFile}: has no parameters`);
    parameters = Object.fromEntries(Object.entries(wanted.parameters).map(([key, value]) => [key, String(value)]));
    hash = String(wanted.hash ?? "");
    const config = {
      ...{ host, port, password, dataDir, parameters },
      // Who was never given a role takes no writes, nor does one whose switchover was cut off: see failover.
      isFenced: memory === undefined || (await readJson(fenceFile)) !== undefined,
      follows: memory?.role === "replica" ? memory.primaryHost : undefined,
    };
    const file = join(dataDir, "redis.conf");
    await writeFile(file, redisConfig(config), { mode: 0o600 });
    const process = spawn(program, [file], { stdio: ["ignore", "inherit", "inherit"], cwd: dataDir });
    child = process;
    let failure: string | undefined;
    exited = new Promise((resolve) => {
      process.once("error", (error) => {
        failure = error.message;
        resolve();
      });
      process.once("exit", (code, signal) => {
        failure ??= `${program} ended with ${signal ?? `exit code ${code}`}`;
        resolve();
      });
    });
    void exited.then(() => {
      if (!isStopping) sayEnded(failure ?? "ended");
    });
    const deadline = clock.monotonic() + startTimeoutMs;
    for (;;) {
      if (failure !== undefined) throw new Error(failure);
      try {
        const fields = await info();
        // A leftover process on the same port would answer too.
        if (fields.process_id !== String(process.pid))
          throw new Error(`another process (${fields.process_id}) listens on ${host}:${port}`);
        if (fields.loading === "0") break;
      } catch (error) {
        if (!(error instanceof RespError) || clock.monotonic() > deadline) {
          process.kill("SIGKILL");
          throw error;
        }
      }
      // The only way to see that the server listens is to try.
      await sleep(clock, 20);
    }
    log.info({ pid: process.pid, role: memory?.role ?? "unassigned", hash }, `${program} answers on ${host}:${port}`);
  }

  async function role(): Promise<EngineRole> {
    if (isStopping) return { role: "stopped", info: {} };
    const fields = await info();
    if (fields.role === "master" && memory?.role === "replica") {
      // Promoted by the agent of the primary before it.
      await remember({ role: "primary", primaryHost: host, epoch: memory.epoch + 1 });
    }
    const isReplica = fields.role === "slave";
    const isInSync =
      fields.loading === "0" && (!isReplica || (fields.master_link_status === "up" && fields.master_sync_in_progress === "0"));
    return {
      role: isReplica ? "replica" : memory === undefined ? "unassigned" : "primary",
      info: {
        configHash: hash,
        version: fields.valkey_version ?? fields.redis_version ?? "",
        isInSync: String(isInSync),
        primaryHost: isReplica ? (fields.master_host ?? "") : host,
        offset: (isReplica ? fields.slave_repl_offset : fields.master_repl_offset) ?? "0",
        epoch: String(memory?.epoch ?? 0),
        pid: fields.process_id ?? "",
      },
    };
  }

  async function assign(assignment: Assignment): Promise<Outcome> {
    if (memory !== undefined && assignment.epoch < memory.epoch) {
      return { ok: false, error: `epoch ${assignment.epoch} is older than ${memory.epoch}` };
    }
    // Remembered first: a restart in between goes the new way.
    await remember(assignment.role === "primary" ? { ...assignment, primaryHost: host } : assignment);
    if (assignment.role === "primary") await run("REPLICAOF", "NO", "ONE");
    else await run("REPLICAOF", assignment.primaryHost, String(port));
    await run("CONFIG", "SET", "min-replicas-to-write", minimum());
    await rm(fenceFile, { force: true });
    return { ok: true };
  }

  async function reload(wanted: Readonly<Record<string, string>>, wantedHash: string): Promise<ReloadOutcome> {
    if (wantedHash === hash) return { ok: true };
    const names = [...new Set([...Object.keys(parameters), ...Object.keys(wanted)])].filter(
      (name) => parameters[name] !== wanted[name],
    );
    const before = new Map<string, string>();
    const needsRestart: string[] = [];
    for (const name of names) {
      const found = (await run("CONFIG", "GET", name)) as readonly string[];
      const value = found[1];
      // Those that CONFIG does not know, and those that fall back to a default that only a start knows.
      if (value === undefined || wanted[name] === undefined) needsRestart.push(name);
      else {
        before.set(name, value);
        // Setting what is set already tells whether it can be set at all.
        if ((await set(name, value)) !== undefined) needsRestart.push(name);
      }
    }
    if (needsRestart.length > 0) return { ok: "restart", parameters: needsRestart };
    const done: string[] = [];
    for (const name of names) {
      const error = await set(name, wanted[name] ?? "");
      if (error !== undefined) {
        for (const each of done.reverse()) await set(each, before.get(each) ?? "");
        return { ok: false, error: `${name} ${wanted[name]}: ${error}` };
      }
      done.push(name);
    }
    parameters = wanted;
    hash = wantedHash;
    return { ok: true };
  }

  async function set(name: string, value: string): Promise<string | undefined> {
    try {
      await run("CONFIG", "SET", name, value);
      return undefined;
    } catch (error) {
      if (error instanceof RespError && error.code === "Refused") return error.message;
      throw error;
    }
  }

  /**
   * Fence, catch up, promote, point the others there, follow. Clients see refused writes for that time and none that was
   * acknowledged is lost: the replica is promoted only when it has every byte that the fenced primary wrote.
   *
   * The fence is on record before it is up: an agent that dies within keeps its server fenced until the controller asks again.
   */
  async function failover({ target, others, epoch, timeoutMs }: Parameters<Engine["failover"]>[0]): Promise<Outcome> {
    if (memory !== undefined && epoch <= memory.epoch && memory.role === "primary") {
      return { ok: false, error: `epoch ${epoch} is not newer than ${memory.epoch}` };
    }
    const fields = await info();
    if (fields.role === "slave") {
      return fields.master_host === target ? { ok: true } : { ok: false, error: `this is a replica of ${fields.master_host}` };
    }
    const chosen = await connectTo(target).catch((error: unknown) =>
      error instanceof RespError ? error : Promise.reject(error),
    );
    if (chosen instanceof RespError) return { ok: false, error: `the target does not answer: ${chosen.message}` };
    let isPromoted = false;
    try {
      const seen = parseInfo(await chosen.command("INFO"));
      isPromoted = seen.role === "master" && (await readJson(fenceFile)) !== undefined;
      if (!isPromoted) {
        const problem = whyNot(seen, Number(fields.master_repl_offset));
        if (problem !== undefined) return { ok: false, error: problem };
        await writeJson(fenceFile, { target, epoch });
        await run("CONFIG", "SET", "min-replicas-to-write", fence);
        if (!(await catchUp(chosen, timeoutMs))) {
          await lift();
          return { ok: false, error: `the target did not catch up within ${timeoutMs} ms` };
        }
        await chosen.command("REPLICAOF", "NO", "ONE");
        isPromoted = true;
      }
    } catch (error) {
      // Whether it was promoted is not known: stay fenced, and look again when asked again.
      log.warn({ err: error, target }, "the switchover was cut off; writes stay fenced until it is tried again");
      throw error;
    } finally {
      chosen.close();
    }
    for (const other of others) {
      try {
        const peer = await connectTo(other);
        await peer.command("REPLICAOF", target, String(port));
        peer.close();
      } catch (error) {
        // The controller makes it follow as soon as it answers.
        log.warn({ err: error, other }, "could not be pointed at the new primary");
      }
    }
    await run("REPLICAOF", target, String(port));
    await remember({ role: "replica", primaryHost: target, epoch });
    await lift();
    return { ok: true };
  }

  function whyNot(seen: Readonly<Record<string, string>>, offset: number): string | undefined {
    if (seen.role !== "slave") return "the target is no replica";
    if (seen.master_host !== host) return `the target follows ${seen.master_host}`;
    if (seen.master_link_status !== "up" || seen.master_sync_in_progress !== "0")
      return "the target is not in sync: its link is not up";
    const lag = offset - Number(seen.slave_repl_offset);
    return lag > mostLagBytes ? `the target is ${lag} bytes behind` : undefined;
  }

  async function catchUp(chosen: RespClient, timeoutMs: number): Promise<boolean> {
    const deadline = clock.monotonic() + timeoutMs;
    for (;;) {
      const mine = Number((await info()).master_repl_offset);
      const its = Number(parseInfo(await chosen.command("INFO", "replication")).slave_repl_offset);
      if (its >= mine) return true;
      if (clock.monotonic() > deadline) return false;
      await sleep(clock, 2);
    }
  }

  async function lift(): Promise<void> {
    await run("CONFIG", "SET", "min-replicas-to-write", minimum());
    await rm(fenceFile, { force: true });
  }

  async function stop({ timeoutMs, force }: Parameters<Engine["stop"]>[0]): Promise<Outcome> {
    isStopping = true;
    const process = child;
    if (process === undefined || process.exitCode !== null || process.signalCode !== null) return { ok: true };
    process.kill("SIGTERM");
    let giveUp = (): void => undefined;
    // A timer that is left behind would keep the agent alive after its program.
    const timer = clock.setTimer(timeoutMs, () => giveUp());
    const tooLong = new Promise<false>((resolve) => {
      giveUp = () => resolve(false);
    });
    const hasEnded = await Promise.race([exited.then(() => true), tooLong]);
    timer.cancel();
    if (hasEnded) return { ok: true };
    if (!force) return { ok: false, error: `${program} has not ended within ${timeoutMs} ms` };
    process.kill("SIGKILL");
    await exited;
    return { ok: true };
  }

  return { start, role, assign, reload, failover, stop, ended };
}
