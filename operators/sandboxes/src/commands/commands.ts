import { toJson } from "@bufbuild/protobuf";
import { type CommandContext, type CommandDefinition, formatResult, outputFlag, renderTable } from "@keelson/operator";
import { choiceFlag, countFlag, invalidFlag, pairsFlag, textFlag, UsageError } from "@keelson/operator/flags";
import { ConsistencyMode, CreateResponseSchema, FailurePolicy, SandboxInfoSchema, WhenFull } from "@keelson/sandbox/protocol";
import { agentCommand } from "./agent.ts";
import { execCommand } from "./exec.ts";
import { checkExpireTime } from "./expire-time.ts";
import { connectionFlags, runWith } from "./connection.ts";
import { age } from "./sandbox-age.ts";
import { fileCommands } from "./files.ts";
import { lifecycleCommands } from "./lifecycle.ts";
import { printable } from "./printable.ts";
import { processCommands } from "./processes.ts";
import { portForwardCommand } from "./port-forward.ts";
import { volumeCommand } from "./volume.ts";
import { topCommand } from "./top.ts";
import { watchCommand } from "./watch.ts";
import { readVolumes, volumeFlag } from "./volume-flag.ts";
import { urlCommand } from "./url.ts";
import { networkFlags, readNetwork } from "./network-flags.ts";

/** The fast path takes whole numbers of up to 12 digits. */
const maxCount = 999_999_999_999;

const name = (context: CommandContext): string => context.args[0] ?? "";

const runFlags = {
  image: textFlag({
    name: "image",
    value: "IMAGE",
    description: "image to run; host stands for this machine's own /usr",
    required: true,
  }),
  pool: textFlag({ name: "pool", value: "NAME", description: "pool that runs it", default: "default-pool" }),
  mode: choiceFlag({
    name: "mode",
    value: "MODE",
    description: "fast (agent first) or strong (API first)",
    choices: ["fast", "strong"],
    default: "fast",
  }),
  ports: textFlag({ name: "ports", value: "PORTS", description: "exposed ports, such as 8080,9091" }),
  ...networkFlags,
  volume: volumeFlag,
  env: pairsFlag({ name: "env", value: "NAME=VALUE", description: "environment variable" }),
  label: pairsFlag({ name: "label", value: "KEY=VALUE", description: "label of the Sandbox object" }),
  workingDir: textFlag({ name: "working-dir", value: "DIR", description: "working directory" }),
  cpu: textFlag({
    name: "cpu",
    value: "AMOUNT",
    description: "CPU limit, such as 500m (default: the pool's)",
  }),
  memory: textFlag({ name: "memory", value: "AMOUNT", description: "memory limit, such as 256Mi (default: the pool's)" }),
  whenFull: choiceFlag({
    name: "when-full",
    value: "POLICY",
    description: "if no slot is free: wait for one, reject the create, or burst (let the pool grow beyond poolMax)",
    choices: ["wait", "reject", "burst"],
    default: "wait",
  }),
  expireIn: countFlag({ name: "expire-in", value: "SECONDS", description: "stop it after this many seconds", max: maxCount }),
};

const whenFullPolicies = { wait: WhenFull.WAIT, reject: WhenFull.REJECT, burst: WhenFull.BURST } as const;

const policyFlag = textFlag({
  name: "failure-policy",
  value: "POLICY",
  description: "what to do when its agent is lost: Manual or AutoRecreate",
});

function policyOf({ flags }: CommandContext): FailurePolicy | undefined {
  const value = policyFlag.read(flags);
  if (value === undefined) return undefined;
  if (/^manual$/i.test(value)) return FailurePolicy.MANUAL;
  if (/^autorecreate$/i.test(value)) return FailurePolicy.AUTO_RECREATE;
  throw invalidFlag(policyFlag, value, "must be Manual or AutoRecreate");
}

const run: CommandDefinition = {
  name: "run",
  description: "create a sandbox and run a program in it: keelson sandbox run NAME --image python:3 -- python3 -c 'print(1)'",
  args: ["NAME", "[COMMAND...]"],
  flags: [...connectionFlags, ...Object.values(runFlags), policyFlag, outputFlag],
  run: (context) =>
    runWith(context, async ({ fastPath, namespace }) => {
      const expireIn = runFlags.expireIn.read(context.flags);
      const ports = (runFlags.ports.read(context.flags) ?? "").split(",").filter((text) => text !== "");
      const bad = ports.find((port) => !/^\d{1,5}$/.test(port));
      if (bad !== undefined) throw invalidFlag(runFlags.ports, bad, "must be a port");
      const created = await fastPath.createSandbox(
        {
          name: name(context),
          namespace,
          image: runFlags.image.read(context.flags),
          poolRef: runFlags.pool.read(context.flags),
          consistencyMode: runFlags.mode.read(context.flags) === "strong" ? ConsistencyMode.STRONG : ConsistencyMode.FAST,
          exposedPorts: ports.map(Number),
          whenFull: whenFullPolicies[runFlags.whenFull.read(context.flags)],
          ...readNetwork(context.flags),
          volumes: readVolumes(context.flags),
          command: [...context.args.slice(1)],
          envs: Object.fromEntries(runFlags.env.read(context.flags)),
          labels: Object.fromEntries(runFlags.label.read(context.flags)),
          workingDir: runFlags.workingDir.read(context.flags) ?? "",
          cpu: runFlags.cpu.read(context.flags) ?? "",
          memory: runFlags.memory.read(context.flags) ?? "",
          expireTimeSeconds: BigInt(expireIn === undefined ? 0 : Math.floor(context.clock.now() / 1000) + expireIn),
          failurePolicy: policyOf(context) ?? FailurePolicy.MANUAL,
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

const list: CommandDefinition = {
  name: "list",
  description: "list the sandboxes of a namespace",
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
              ? `No sandboxes in namespace ${namespace}; create one: keelson sandbox run NAME --image IMAGE -- COMMAND\n`
              : renderTable([["NAME", "ID", "PHASE", "IMAGE", "AGENT", "AGE"], ...rows]),
        ),
      );
      return 0;
    }),
};

const get: CommandDefinition = {
  name: "get",
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
            ...(info.message === "" ? [] : [["Message:", printable(info.message)]]),
            ["Image:", info.image],
            ["Pool:", info.poolRef],
            ["Agent:", info.agentPod || "-"],
            ...(info.deniedFlows > 0n ? [["Denied:", `${info.deniedFlows}: ${info.deniedDestinations.join(", ")}`]] : []),
            ...(info.expireTimeSeconds > 0n
              ? [["Expires:", new Date(Number(info.expireTimeSeconds) * 1000).toISOString()]]
              : []),
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
  description: "print the output of a sandbox",
  args: ["NAME"],
  flags: [...connectionFlags, { name: "follow", short: "f", description: "follow the output until the program exits" }],
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
  description: "stop a sandbox and delete its object",
  args: ["NAME"],
  flags: connectionFlags,
  run: (context) =>
    runWith(context, async ({ fastPath, namespace }) => {
      await fastPath.deleteSandbox({ sandboxName: name(context), namespace }, { signal: context.signal });
      context.stdout.write(`sandbox ${namespace}/${name(context)} deleted\n`);
      return 0;
    }),
};

const updateFlags = {
  expireTime: countFlag({
    name: "expire-time",
    value: "UNIX",
    description: "expiry in Unix seconds; 0: never",
    max: maxCount,
  }),
  recoveryTimeout: countFlag({
    name: "recovery-timeout",
    value: "SECONDS",
    description: "how long to wait for a lost agent",
    max: maxCount,
  }),
  labels: pairsFlag({ name: "labels", value: "KEY=VALUE", description: "label to set" }),
};

const update: CommandDefinition = {
  name: "update",
  description: "change the expiry, failure policy or recovery timeout of a sandbox, one per call, and its labels",
  args: ["NAME"],
  flags: [...connectionFlags, ...Object.values(updateFlags), policyFlag],
  run: (context) =>
    runWith(context, async ({ fastPath, namespace }) => {
      const expire = updateFlags.expireTime.read(context.flags);
      checkExpireTime(expire, context.clock.now());
      const policy = policyOf(context);
      const recovery = updateFlags.recoveryTimeout.read(context.flags);
      const updates = [
        ...(expire === undefined ? [] : [{ case: "expireTimeSeconds" as const, value: BigInt(expire) }]),
        ...(policy === undefined ? [] : [{ case: "failurePolicy" as const, value: policy }]),
        ...(recovery === undefined ? [] : [{ case: "recoveryTimeoutSeconds" as const, value: recovery }]),
      ];
      if (updates.length > 1) throw new UsageError("--expire-time, --failure-policy and --recovery-timeout cannot be combined");
      const request = {
        sandboxName: name(context),
        namespace,
        labels: Object.fromEntries(updateFlags.labels.read(context.flags)),
      };
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
  description: "request a restart of a sandbox, and return immediately",
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
  topCommand,
  logs,
  execCommand,
  ...processCommands,
  remove,
  update,
  reset,
  ...lifecycleCommands,
  ...fileCommands,
  watchCommand,
  portForwardCommand,
  urlCommand,
  volumeCommand,
  agentCommand,
];
