import { toJson } from "@bufbuild/protobuf";
import {
  type CommandContext,
  type CommandDefinition,
  type FlagDefinition,
  formatResult,
  outputFlag,
  renderTable,
} from "@keelson/operator";
import {
  ConsistencyMode,
  CreateResponseSchema,
  FailurePolicy,
  type SandboxInfo,
  SandboxInfoSchema,
} from "../fastpath/generated/fastpath/v1/fastpath_pb.ts";
import { agentCommand } from "./agent.ts";
import { execCommand } from "./exec.ts";
import { CommandError, connectionFlags, listFlag, runWith, textFlag } from "./connection.ts";

const name = (context: CommandContext): string => context.args[0] ?? "";

/** `key=value` pairs of a repeatable flag. */
function pairsFlag(context: CommandContext, flag: string): Record<string, string> {
  const pairs = listFlag(context, flag).map((pair): [string, string] => {
    const equals = pair.indexOf("=");
    if (equals < 1) throw new CommandError(`--${flag}: ${JSON.stringify(pair)} has to be like key=value`);
    return [pair.slice(0, equals), pair.slice(equals + 1)];
  });
  return Object.fromEntries(pairs);
}

function numberFlag(context: CommandContext, flag: string): number | undefined {
  const value = textFlag(context, flag);
  if (value === undefined) return undefined;
  if (!/^\d{1,12}$/.test(value))
    throw new CommandError(`--${flag}: ${JSON.stringify(value)} has to be a whole number, 0 or above`);
  return Number(value);
}

function policyFlag(context: CommandContext): FailurePolicy | undefined {
  const value = textFlag(context, "failure-policy");
  if (value === undefined) return undefined;
  if (/^manual$/i.test(value)) return FailurePolicy.MANUAL;
  if (/^autorecreate$/i.test(value)) return FailurePolicy.AUTO_RECREATE;
  throw new CommandError(`--failure-policy: ${JSON.stringify(value)} has to be Manual or AutoRecreate`);
}

function modeFlag(context: CommandContext): ConsistencyMode {
  const value = textFlag(context, "mode") ?? "fast";
  if (value === "fast") return ConsistencyMode.FAST;
  if (value === "strong") return ConsistencyMode.STRONG;
  throw new CommandError(`--mode: ${JSON.stringify(value)} has to be fast or strong`);
}

const policyFlagDefinition: FlagDefinition = {
  name: "failure-policy",
  value: "POLICY",
  description: "when its agent is lost: Manual or AutoRecreate",
};

const run: CommandDefinition = {
  name: "run",
  usesCluster: false,
  description: "make a sandbox and start a program in it: keelson sandbox run NAME --image host -- sh -c 'echo hello'",
  args: ["NAME", "[COMMAND...]"],
  flags: [
    ...connectionFlags,
    { name: "image", value: "IMAGE", description: "image; host: the machine's own programs", default: "host" },
    { name: "pool", value: "NAME", description: "pool whose agents may run it", default: "default-pool" },
    { name: "mode", value: "MODE", description: "fast (agent first) or strong (API first)", default: "fast" },
    { name: "ports", value: "PORTS", description: "ports that it listens on, such as 8080,9091" },
    { name: "env", value: "NAME=VALUE", description: "variable of its environment", repeatable: true },
    { name: "label", value: "KEY=VALUE", description: "label of the object", repeatable: true },
    { name: "working-dir", value: "DIR", description: "where it runs" },
    { name: "cpu", value: "AMOUNT", description: "the most processor time that it gets, such as 500m (default: the pool's)" },
    { name: "memory", value: "AMOUNT", description: "the most memory, such as 256Mi (default: the pool's)" },
    { name: "expire-in", value: "SECONDS", description: "stop it after this long" },
    policyFlagDefinition,
    outputFlag,
  ],
  run: (context) =>
    runWith(context, async ({ fastPath, namespace }) => {
      const expireIn = numberFlag(context, "expire-in");
      const ports = (textFlag(context, "ports") ?? "").split(",").filter((text) => text !== "");
      const bad = ports.find((port) => !/^\d{1,5}$/.test(port));
      if (bad !== undefined) throw new CommandError(`--ports: ${JSON.stringify(bad)} is no port`);
      const created = await fastPath.createSandbox(
        {
          name: name(context),
          namespace,
          image: textFlag(context, "image") ?? "host",
          poolRef: textFlag(context, "pool") ?? "default-pool",
          consistencyMode: modeFlag(context),
          exposedPorts: ports.map(Number),
          command: [...context.args.slice(1)],
          envs: pairsFlag(context, "env"),
          labels: pairsFlag(context, "label"),
          workingDir: textFlag(context, "working-dir") ?? "",
          cpu: textFlag(context, "cpu") ?? "",
          memory: textFlag(context, "memory") ?? "",
          expireTimeSeconds: BigInt(expireIn === undefined ? 0 : Math.floor(context.clock.now() / 1000) + expireIn),
          failurePolicy: policyFlag(context) ?? FailurePolicy.MANUAL,
        },
        { signal: context.signal },
      );
      context.stdout.write(
        formatResult(context, toJson(CreateResponseSchema, created), () => {
          const { sandboxName, sandboxId, agentPod, endpoints, timings } = created;
          return renderTable([
            ["Name:", sandboxName],
            ["ID:", sandboxId],
            ["Agent:", agentPod],
            ...(endpoints.length > 0 ? [["Endpoints:", endpoints.join(", ")]] : []),
            ...(timings.total !== undefined ? [["Took:", `${timings.total.toFixed(1)} ms`]] : []),
          ]);
        }),
      );
      return 0;
    }),
};

function age(info: SandboxInfo, nowMs: number): string {
  const seconds = Math.max(Math.floor(nowMs / 1000) - Number(info.createdAt), 0);
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)}h` : `${Math.floor(seconds / 86_400)}d`;
}

const list: CommandDefinition = {
  name: "list",
  usesCluster: false,
  description: "show the sandboxes of a namespace",
  flags: [...connectionFlags, outputFlag],
  run: (context) =>
    runWith(context, async ({ fastPath, namespace }) => {
      const { items } = await fastPath.listSandboxes({ namespace }, { signal: context.signal });
      const rows = items.map((item) => [
        item.sandboxName,
        item.sandboxId || "-",
        item.phase,
        item.image,
        item.agentPod || "-",
        age(item, context.clock.now()),
      ]);
      context.stdout.write(
        formatResult(
          context,
          items.map((item) => toJson(SandboxInfoSchema, item)),
          () =>
            rows.length === 0
              ? `No sandboxes in namespace ${namespace}; make one: keelson sandbox run NAME -- COMMAND\n`
              : renderTable([["NAME", "ID", "PHASE", "IMAGE", "AGENT", "AGE"], ...rows]),
        ),
      );
      return 0;
    }),
};

const get: CommandDefinition = {
  name: "get",
  usesCluster: false,
  description: "show one sandbox",
  args: ["NAME"],
  flags: [...connectionFlags, outputFlag],
  run: (context) =>
    runWith(context, async ({ fastPath, namespace }) => {
      const info = await fastPath.getSandbox({ sandboxName: name(context), namespace }, { signal: context.signal });
      context.stdout.write(
        formatResult(context, toJson(SandboxInfoSchema, info), () =>
          renderTable([
            ["Name:", info.sandboxName],
            ["ID:", info.sandboxId || "-"],
            ["Phase:", info.phase],
            ["Image:", info.image],
            ["Pool:", info.poolRef],
            ["Agent:", info.agentPod || "-"],
            ["Endpoints:", info.endpoints.join(", ") || "-"],
            ["Age:", age(info, context.clock.now())],
          ]),
        ),
      );
      return 0;
    }),
};

const logs: CommandDefinition = {
  name: "logs",
  usesCluster: false,
  description: "show what a sandbox has written",
  args: ["NAME"],
  flags: [...connectionFlags, { name: "follow", short: "f", description: "go on until its program has ended" }],
  run: (context) =>
    runWith(context, async ({ streams, namespace }) => {
      const request = { sandboxName: name(context), namespace, follow: context.flags.follow === true };
      for await (const { data } of streams.logs(request, { signal: context.signal })) {
        if (!context.stdout.write(data)) await new Promise((resolve) => context.stdout.once("drain", resolve));
      }
      return 0;
    }),
};

const remove: CommandDefinition = {
  name: "delete",
  usesCluster: false,
  description: "stop a sandbox and delete its object",
  args: ["NAME"],
  flags: connectionFlags,
  run: (context) =>
    runWith(context, async ({ fastPath, namespace }) => {
      await fastPath.deleteSandbox({ sandboxName: name(context), namespace }, { signal: context.signal });
      context.stdout.write(`sandbox ${namespace}/${name(context)} is deleted\n`);
      return 0;
    }),
};

const update: CommandDefinition = {
  name: "update",
  usesCluster: false,
  description: "change when a sandbox expires, its failure policy, or its labels; one thing a call, labels besides",
  args: ["NAME"],
  flags: [
    ...connectionFlags,
    { name: "expire-time", value: "UNIX", description: "Unix seconds when it is stopped; 0: never" },
    policyFlagDefinition,
    { name: "recovery-timeout", value: "SECONDS", description: "how long a lost agent is waited for" },
    { name: "labels", value: "KEY=VALUE", description: "label to set", repeatable: true },
  ],
  run: (context) =>
    runWith(context, async ({ fastPath, namespace }) => {
      const expire = numberFlag(context, "expire-time");
      const policy = policyFlag(context);
      const recovery = numberFlag(context, "recovery-timeout");
      const updates = [
        ...(expire === undefined ? [] : [{ case: "expireTimeSeconds" as const, value: BigInt(expire) }]),
        ...(policy === undefined ? [] : [{ case: "failurePolicy" as const, value: policy }]),
        ...(recovery === undefined ? [] : [{ case: "recoveryTimeoutSeconds" as const, value: recovery }]),
      ];
      if (updates.length > 1) throw new CommandError("--expire-time, --failure-policy and --recovery-timeout go one at a time");
      const request = { sandboxName: name(context), namespace, labels: pairsFlag(context, "labels") };
      const [one] = updates;
      const answer = await fastPath.updateSandbox(one === undefined ? request : { ...request, update: one }, {
        signal: context.signal,
      });
      (answer.success ? context.stdout : context.stderr).write(`${answer.message}\n`);
      return answer.success ? 0 : 1;
    }),
};

const reset: CommandDefinition = {
  name: "reset",
  usesCluster: false,
  description: "start a sandbox anew",
  args: ["NAME"],
  flags: connectionFlags,
  run: (context) =>
    runWith(context, async ({ fastPath, namespace }) => {
      const value = new Date(context.clock.now()).toISOString();
      const answer = await fastPath.updateSandbox(
        { sandboxName: name(context), namespace, update: { case: "resetRevision", value } },
        { signal: context.signal },
      );
      (answer.success ? context.stdout : context.stderr).write(`${answer.success ? `reset at ${value}` : answer.message}\n`);
      return answer.success ? 0 : 1;
    }),
};

/** The commands `keelson sandbox ...`. */
export const sandboxCommands: readonly CommandDefinition[] = [
  run,
  list,
  get,
  logs,
  execCommand,
  remove,
  update,
  reset,
  agentCommand,
];
