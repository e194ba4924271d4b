import { once } from "node:events";
import { type CommandContext, type CommandDefinition, outputFlag, formatResult, renderTable } from "@keelson/operator";
import { countFlag, textFlag } from "@keelson/operator/flags";
import { toJson } from "@bufbuild/protobuf";
import { type ProcessInfo, ProcessInfoSchema, ProcessState } from "@keelson/sandbox/protocol";
import { connectionFlags, runWith } from "./connection.ts";
import { printable } from "./printable.ts";

const states: Partial<Record<ProcessState, string>> = {
  [ProcessState.RUNNING]: "Running",
  [ProcessState.EXITED]: "Exited",
  [ProcessState.TIMED_OUT]: "TimedOut",
  [ProcessState.ABANDONED]: "Abandoned",
};

const row = ({ processId, state, exitCode, startedMs, command }: ProcessInfo): string[] => [
  processId,
  states[state] ?? "Unknown",
  state === ProcessState.RUNNING ? "-" : String(exitCode),
  new Date(Number(startedMs)).toISOString().slice(0, 19).replace("T", " "),
  printable(command.join(" ")),
];

const ps: CommandDefinition = {
  name: "ps",
  description: "list the commands that were started in a sandbox with exec --detach or by a client",
  args: ["NAME"],
  flags: [...connectionFlags, outputFlag],
  run: (context) =>
    runWith(context, async ({ processes, namespace }) => {
      const [sandboxName = ""] = context.args;
      const found = (await processes.list({ sandboxName, namespace }, { signal: context.signal })).processes;
      const table = (): string =>
        found.length === 0
          ? `No commands in sandbox ${namespace}/${sandboxName}; start one: keelson sandbox exec --detach ${sandboxName} -- COMMAND\n`
          : renderTable([["ID", "STATE", "EXIT", "STARTED", "COMMAND"], ...found.map(row)]);
      const values = found.map((each) => toJson(ProcessInfoSchema, each));
      context.stdout.write(formatResult(context, values, table));
      return 0;
    }),
};

const offsetFlag = countFlag({
  name: "offset",
  value: "BYTES",
  description: "start at this position of the output (default: the start)",
  max: Number.MAX_SAFE_INTEGER,
});

const attach: CommandDefinition = {
  name: "attach",
  description: "print the output of a command in a sandbox until it exits, and exit with its status",
  args: ["NAME", "ID"],
  flags: [...connectionFlags, offsetFlag],
  run: (context) =>
    runWith(context, async ({ processes, namespace }) => {
      const [sandboxName = "", processId = ""] = context.args;
      const offset = BigInt(offsetFlag.read(context.flags) ?? 0);
      for await (const { output } of processes.output(
        { sandboxName, namespace, processId, offset },
        { signal: context.signal },
      )) {
        if (output.case === "stdout") await write(context.stdout, output.value);
        else if (output.case === "stderr") await write(context.stderr, output.value);
        else if (output.case === "lostBytes") context.stderr.write(`${output.value} bytes of output are no longer available\n`);
        else if (output.case === "exit") return output.value.exitCode;
      }
      context.stderr.write("the connection closed before the command exited\n");
      return 1;
    }),
};

async function write(stream: CommandContext["stdout"], data: Uint8Array): Promise<void> {
  if (!stream.write(data)) await once(stream, "drain");
}

const signalFlag = textFlag({
  name: "signal",
  short: "s",
  value: "NAME",
  description: "signal to send, such as SIGTERM",
  default: "SIGKILL",
});

const kill: CommandDefinition = {
  name: "kill",
  description: "send a signal to a command in a sandbox",
  args: ["NAME", "ID"],
  flags: [...connectionFlags, signalFlag],
  run: (context) =>
    runWith(context, async ({ processes, namespace }) => {
      const [sandboxName = "", processId = ""] = context.args;
      const signal = signalFlag.read(context.flags);
      await processes.signal({ sandboxName, namespace, processId, signal }, { signal: context.signal });
      context.stdout.write(`${signal} sent to command ${processId}\n`);
      return 0;
    }),
};

/** `keelson sandbox ps`, `attach` and `kill`. */
export const processCommands: readonly CommandDefinition[] = [ps, attach, kill];
