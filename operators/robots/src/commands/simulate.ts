import { setOwn } from "@keelson/api-machinery";
import { sleep } from "@keelson/api-machinery/time";
import { aborted } from "@keelson/controller/shutdown";
import type { CommandContext, CommandDefinition } from "@keelson/operator";
import { countFlag, durationFlag, isUsageError, logLevelFlag, pairsFlag, textFlag } from "@keelson/operator/flags";
import { SimulatedFleet } from "../simulation/simulated-fleet.ts";
import { brokerUrlFlag, readBrokerUrl, readToken, tokenFileFlag, tokenFlag } from "./broker/broker-flags.ts";

const flags = {
  robots: countFlag({ name: "robots", value: "N", description: "number of robots", default: "10", min: 1, max: 10_000 }),
  prefix: textFlag({ name: "prefix", value: "NAME", description: "prefix of the robots' IDs", default: "sim" }),
  failing: countFlag({
    name: "failing",
    value: "N",
    description: "number of robots, counted from the first, on which programs with SIMULATE_FAILS=true exit with 1",
    default: "0",
  }),
  offline: countFlag({
    name: "offline",
    value: "N",
    description: "number of robots, counted from the last, that go offline after --offline-after",
    default: "0",
  }),
  offlineAfter: durationFlag({
    name: "offline-after",
    description: "time after which these robots go offline",
    default: "10s",
  }),
  offlineFor: durationFlag({ name: "offline-for", description: "time after which they reconnect (default: never)" }),
  label: pairsFlag({ name: "label", value: "KEY=VALUE", description: "label of the created Robots" }),
};

/** `keelson robots simulate`. */
export const simulateCommand: CommandDefinition = {
  name: "simulate",
  description: "connect simulated robots to a broker; they run the agent's real state machine but no programs",
  flags: [brokerUrlFlag, tokenFlag, tokenFileFlag, ...Object.values(flags), logLevelFlag],
  usesCluster: false,
  run: simulate,
};

async function simulate(context: CommandContext): Promise<number> {
  const { flags: values, stdout, stderr, clock, log, signal } = context;
  let broker: { readonly brokerUrl: string; readonly token: string };
  try {
    broker = { brokerUrl: readBrokerUrl(values), token: await readToken(values) };
  } catch (error) {
    if (!isUsageError(error)) throw error;
    stderr.write(`${error.message}\n`);
    return 2;
  }
  const labels: Record<string, string> = {};
  for (const [key, value] of flags.label.read(values)) setOwn(labels, key, value);
  const robots = flags.robots.read(values);
  const fleet = new SimulatedFleet({
    ...broker,
    robots,
    prefix: flags.prefix.read(values),
    failing: flags.failing.read(values),
    labels,
    heartbeatIntervalMs: 30_000,
    clock,
    random: Math.random,
    log,
  });
  fleet.start();
  stdout.write(`${robots} robots are connecting to ${broker.brokerUrl}; stop them with Ctrl+C\n`);
  try {
    await goOfflineAndReturn(fleet, context);
    await aborted(signal);
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    await fleet.stop();
  }
  return 0;
}

async function goOfflineAndReturn(
  fleet: SimulatedFleet,
  { flags: values, stdout, clock, signal }: CommandContext,
): Promise<void> {
  const count = flags.offline.read(values);
  if (count === 0) return;
  const leaving = fleet.robots.slice(-count);
  await sleep(clock, flags.offlineAfter.read(values), signal);
  await Promise.all(leaving.map((robot) => robot.disconnect()));
  stdout.write(`${leaving.length} robots have left\n`);
  const offlineForMs = flags.offlineFor.read(values);
  if (offlineForMs === undefined) return;
  await sleep(clock, offlineForMs, signal);
  for (const robot of leaving) robot.connect();
  stdout.write(`${leaving.length} robots return\n`);
}
