import { fileURLToPath } from "node:url";
import type { CommandDefinition, Operator } from "@keelson/operator";
import type { FlagDefinition } from "@keelson/operator/flags";

/** An operator as the command line lists it before any of its code is loaded. */
export interface OperatorEntry extends Pick<Operator, "name" | "commandName" | "description"> {
  /** Imports the operator's package. */
  load(): Promise<Operator>;
  /** Commands that are imported without the rest of the operator, because they run for a long time on small machines. Default: none. */
  readonly smallCommands?: Readonly<Record<string, () => Promise<CommandDefinition>>>;
  /** Imports the flags of its controllers and servers only. Default: it has none. */
  loadFlags?(): Promise<readonly FlagDefinition[]>;
}

const command = fileURLToPath(new URL("../bin/keelson.js", import.meta.url));
/** Next to the built modules, even if this module runs from source or from a bundle. */
const agentProgram = fileURLToPath(new URL("../dist/programs/middleware-agent-program.mjs", import.meta.url));

/** Every operator, in the order in which they start and are listed. To add one, add its package and an entry here. */
export const operatorEntries: readonly OperatorEntry[] = [
  {
    name: "robots",
    description: "run jobs on fleets of robots over MQTT",
    load: async () => (await import("@keelson/robots")).robots,
    smallCommands: { agent: async () => (await import("@keelson/robots/agent")).loadAgentCommand() },
    loadFlags: async () => (await import("@keelson/robots/flags")).serverFlags,
  },
  {
    name: "middleware",
    commandName: "app",
    description: "run stateful middleware and change it without losing data",
    load: async () => {
      const [{ createMiddleware }, { postgresPlugin }] = await Promise.all([
        import("@keelson/middleware"),
        import("@keelson/middleware-postgres"),
      ]);
      return createMiddleware({
        agentCommand: [process.execPath, command, "middleware", "agent"],
        agentProgram,
        plugins: [postgresPlugin],
      });
    },
    loadFlags: async () => (await import("@keelson/middleware/flags")).operatorFlags,
  },
  {
    name: "testplane",
    commandName: "test",
    description: "run integration and load tests of operators",
    load: async () => {
      const { createTestplane } = await import("@keelson/testplane");
      return createTestplane({ loadSchemas: async () => (await import("@keelson/apiserver/schemas")).builtinKindSchema });
    },
  },
  {
    name: "mpi",
    description: "run MPI jobs without SSH",
    load: async () => (await import("@keelson/mpi")).mpi,
    loadFlags: async () => (await import("@keelson/mpi/flags")).operatorFlags,
  },
  {
    name: "sandboxes",
    commandName: "sandbox",
    description: "run untrusted code in sandboxes that start in milliseconds",
    load: async () => (await import("@keelson/sandboxes")).sandboxes,
    loadFlags: async () => (await import("@keelson/sandboxes/flags")).serverFlags,
  },
];

/** Loads the operators with these names, in starting order. Default: all. */
export function loadOperators(names?: ReadonlySet<string>): Promise<readonly Operator[]> {
  const chosen = operatorEntries.filter(({ name }) => names === undefined || names.has(name));
  return Promise.all(chosen.map((entry) => entry.load()));
}

/** Loads the flags of all operators' controllers and servers, in starting order, without the operators themselves. */
export async function loadOperatorFlags(): Promise<readonly FlagDefinition[]> {
  return (await Promise.all(operatorEntries.map(async (entry) => (await entry.loadFlags?.()) ?? []))).flat();
}
