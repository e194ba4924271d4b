import { existsSync } from "node:fs";
import { copyFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { type Clock, sleep } from "@keelson/api-machinery/time";
import { AgentError, killProcessesIn, type LogSource, ServerProcess } from "@keelson/middleware-agent";
import { PostgresConnection, PostgresError } from "../server/postgres-client.ts";
import { normalizeParameters, renderSettings, type Settings } from "../server/postgres-config.ts";
import { requireTool } from "../server/run-tool.ts";
import type { ServerFiles } from "../server/server-files.ts";
import { withMinima } from "../server/standby-minima.ts";
import { historyName } from "../roles/timeline.ts";
import { LogFeeder } from "./log-feeder.ts";

const pollMs = 200;
/** Checkpoint of the shutdown. */
const stopTimeoutMs = 600_000;

/** Options of {@link recover}. */
export interface RecoveryOptions {
  readonly files: ServerFiles;
  /** Data directory of a base backup. */
  readonly folder: string;
  readonly port: number;
  readonly password: string;
  readonly parameters: Readonly<Record<string, string>>;
  /** Timeline to recover along. */
  readonly timeline: number;
  /** The recovered data gets a later timeline than this one, so that no server takes it for data that it knows. */
  readonly lastTimeline: number;
  /** Where recovery ends: settings such as `recovery_target_lsn`. Empty: at the end of the log. */
  readonly target: Settings;
  /** Archived log to apply. Without it, the log of the backup is all. */
  readonly log?: LogSource;
  readonly clock: Clock;
  readonly signal?: AbortSignal;
}

/**
 * Recovers a base backup by its own server, which only the agent can connect to, and shuts it down: the data then is that of a primary
 * on its own timeline.
 *
 * **Errors**: an `AgentError` with the server's message, for example about a target that the log does not reach.
 */
export async function recover(options: RecoveryOptions): Promise<void> {
  const { files, folder, clock, signal, log } = options;
  await rm(join(folder, "standby.signal"), { force: true });
  await files.write(join(folder, "recovery.signal"), "");
  await files.createFolder(files.path("recovery"));
  await reserveTimelines(options);
  const feeder = new LogFeeder(files, log, clock);
  const configFile = files.path("conf/recovery.conf");
  await files.write(configFile, await configOf(options));
  await files.write(files.path("conf/recovery_hba.conf"), "local all all trust\n");
  const child = new ServerProcess(files.program("postgres"), clock, {
    stopSignal: "SIGINT",
    killsChildren: true,
    ...(files.user && { user: files.user }),
  });
  child.start(["-D", folder, "-c", `config_file=${configFile}`], files.home);
  // It must not outlive the agent.
  child.guard(undefined);
  const feeding = feeder.run();
  try {
    await Promise.race([untilRecovered(child, options), feeding]);
    signal?.throwIfAborted();
    const gap = feeder.gapOf(options.timeline);
    if (options.target.length === 0 && gap !== undefined)
      throw new AgentError("SnapshotFailed", `the archived log has a gap: ${gap} is missing, and later files exist`);
    const { ok } = await child.stop({ timeoutMs: stopTimeoutMs, force: false });
    if (!ok) throw new AgentError("SnapshotFailed", "the recovered server did not shut down");
  } finally {
    feeder.stop();
    child.kill();
    await feeding.catch(() => undefined);
    await killProcessesIn([folder], clock);
  }
  await requireTool(files.program("initdb"), ["--sync-only", `--pgdata=${folder}`], files.tool);
}

/** A promoted server uses the first timeline without a history file: files of the known ones are found. */
async function reserveTimelines({ files, timeline, lastTimeline }: RecoveryOptions): Promise<void> {
  const log = files.path("log");
  await files.createFolder(log);
  const reserved = join(log, "reserved");
  await files.write(reserved, "");
  for (let next = timeline + 1; next <= lastTimeline; next++) {
    const file = join(log, historyName(next));
    if (existsSync(file)) continue;
    await copyFile(reserved, file);
    await files.own(file);
  }
}

async function configOf({ files, folder, port, parameters, timeline, target }: RecoveryOptions): Promise<string> {
  const control = await requireTool(files.program("pg_controldata"), [folder], files.tool);
  const settings: Settings = [
    ...Object.entries(normalizeParameters(withMinima(parameters, control))),
    ["listen_addresses", ""],
    ["port", String(port)],
    ["unix_socket_directories", files.path("recovery")],
    ["unix_socket_permissions", "0700"],
    ["hba_file", files.path("conf/recovery_hba.conf")],
    ["hot_standby", "off"],
    ["archive_mode", "off"],
    ["primary_conninfo", ""],
    ["restore_command", restoreCommand(files.path("log"))],
    ["recovery_target_timeline", String(timeline)],
    ...target,
    ["recovery_target_action", "promote"],
  ];
  return renderSettings(settings);
}

/**
 * Asks the agent for a segment, and waits for it. History files are complete from the start. Status 255 ends the server: it must not take a
 * failure for the end of the log.
 */
function restoreCommand(log: string): string {
  const folder = `'${log.replaceAll("'", `'\\''`)}'`;
  const found = `[ -e ${folder}/%f ] && { mv ${folder}/%f "%p" || exit 255; exit 0; }`;
  const ended = `[ -e ${folder}/%f.missing ] && exit 1; [ -e ${folder}/failed ] && exit 255`;
  const wait = `: > ${folder}/%f.wanted || exit 255; while :; do ${found}; ${ended}; sleep 0.02; done`;
  return `case %f in *.history) [ -e ${folder}/%f ] || exit 1; cp ${folder}/%f "%p" || exit 255;; *) ${wait};; esac`;
}

async function untilRecovered(child: ServerProcess, { files, port, password, clock, signal }: RecoveryOptions): Promise<void> {
  for (;;) {
    signal?.throwIfAborted();
    if (child.failure !== undefined) throw new AgentError("SnapshotFailed", messageOf(child.failure));
    try {
      await using connection = await PostgresConnection.open({ host: files.path("recovery"), port, password });
      const [row] = await connection.run("SELECT pg_is_in_recovery()::text AS standby");
      if (row?.["standby"] === "false") return;
    } catch (error) {
      // It starts, and recovers for as long as its log takes.
      if (!(error instanceof PostgresError)) throw error;
    }
    await sleep(clock, pollMs, signal);
  }
}

/** The server's own reason, without the lines around it. */
function messageOf(failure: string): string {
  const reasons = failure.split("\n").flatMap((line) => /(?:FATAL|PANIC):\s+(.*)$/.exec(line)?.[1] ?? []);
  // Connections of the agent are refused in the meantime.
  return reasons.find((reason) => !reason.startsWith("the database system is ")) ?? failure;
}
