import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { systemClock } from "@keelson/api-machinery";
import { connect } from "@keelson/client";
import { type Operator, startOperator } from "@keelson/controller";
import type { Command } from "commander";
import { addFlag, flagValues, UsageError } from "../command-line.ts";
import { createLogger, isLogLevel } from "../logger.ts";
import { listenForShutdown } from "../shutdown.ts";
import { selectOperators } from "./only.ts";

/** Adds `keelson operator`: runs controllers against the cluster of a kubeconfig, or the one it runs in. */
export function addOperatorCommand(
  program: Command,
  operators: readonly Operator[],
  setExitCode: (code: number) => void,
): void {
  const command = program
    .command("operator")
    .description("run the controllers of some families against a cluster, with leader election; the CRDs must be there")
    .exitOverride();
  addFlag(command, {
    name: "only",
    value: "NAMES",
    description: `families to run, of ${names(operators)}`,
    default: names(operators),
  });
  addFlag(command, {
    name: "kubeconfig",
    value: "FILE",
    description: "default: $KUBECONFIG, ~/.kube/config, or the service account of a Pod",
  });
  addFlag(command, { name: "context", value: "NAME", description: "context of the kubeconfig (default: its current one)" });
  addFlag(command, { name: "namespace", value: "NAME", description: "namespace of the leases", default: "default" });
  addFlag(command, {
    name: "data-dir",
    value: "DIR",
    description: "where servers keep their files",
    default: ".keelson/operator",
  });
  addFlag(command, { name: "log-level", value: "LEVEL", description: "debug, info, warn, error or silent", default: "info" });
  for (const operator of operators) {
    for (const flag of operator.servers.flatMap((server) => server.flags ?? [])) addFlag(command, flag);
  }
  command.action(async () => {
    setExitCode(await runOperators(flagValues(command), operators));
  });
}

async function runOperators(flags: ReturnType<typeof flagValues>, operators: readonly Operator[]): Promise<number> {
  const level = String(flags["log-level"]);
  if (!isLogLevel(level))
    throw new UsageError(`--log-level: ${JSON.stringify(level)} is none of debug, info, warn, error, silent`);
  const selected = selectOperators(String(flags.only), operators);
  const shutdown = listenForShutdown();
  const log = createLogger({ level });
  const client = await connect({
    ...(typeof flags.kubeconfig === "string" ? { kubeconfig: flags.kubeconfig } : {}),
    ...(typeof flags.context === "string" ? { context: flags.context } : {}),
  });
  const running = [];
  try {
    for (const operator of selected) {
      const dataDir = resolve(String(flags["data-dir"]), operator.name);
      mkdirSync(dataDir, { recursive: true, mode: 0o700 });
      const started = await startOperator({
        operator,
        client,
        clock: systemClock,
        logger: log.child({ operator: operator.name }),
        dataDir: join(dataDir),
        flags,
        leaderElection: { namespace: String(flags.namespace), name: `keelson-${operator.name}` },
        signal: shutdown.signal,
      });
      running.push(started);
      for (const line of started.descriptions) process.stdout.write(`${operator.name}\t${line}\n`);
    }
    process.stdout.write("ready\n");
    await Promise.race([
      new Promise<void>((done) => shutdown.signal.addEventListener("abort", () => done(), { once: true })),
      ...running.map((each) => each.done),
    ]);
    return 0;
  } finally {
    for (const each of running.reverse()) await each.stop();
    await client.close();
    shutdown.dispose();
  }
}

const names = (operators: readonly Operator[]): string => operators.map((operator) => operator.name).join(",");
