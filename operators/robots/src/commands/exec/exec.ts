import type { CommandContext, CommandDefinition } from "@keelson/operator";
import { durationFlag, UsageError } from "@keelson/operator/flags";
import { connectExec } from "../../exec/connect-exec.ts";
import { encodeFrame } from "../../exec/exec-frames.ts";
import { maxExecTimeoutMs } from "../../protocol/exec-messages.ts";
import { execFailure, execTargetFlags, readExecTarget } from "./exec-target.ts";
import { forwardInput, terminalSize } from "./exec-terminal.ts";
import { namespaceFlag } from "../flags.ts";
import { printOutput } from "./print-output.ts";

const timeoutFlag = durationFlag({
  name: "timeout",
  description: "end the command after this time, at most 24h",
  default: "1h",
  minMs: 1000,
  maxMs: maxExecTimeoutMs,
});

/** `keelson robots exec TASK -- COMMAND`. */
export const execCommand: CommandDefinition = {
  name: "exec",
  description: "run a command next to the program of a running task: keelson robots exec -it TASK -- sh",
  args: ["TASK", "[COMMAND...]"],
  flags: [
    namespaceFlag,
    ...execTargetFlags,
    timeoutFlag,
    { name: "stdin", short: "i", description: "forward standard input" },
    { name: "tty", short: "t", description: "allocate a terminal" },
  ],
  async run(context) {
    try {
      return await exec(context);
    } catch (error) {
      return execFailure(context, error);
    }
  },
};

async function exec(context: CommandContext): Promise<number> {
  const { args, flags: values, signal } = context;
  const [task = "", ...command] = args;
  if (command.length === 0) throw new UsageError("COMMAND: required, after --, as in: exec TASK -- sh");
  const target = await readExecTarget(context);
  const connection = await connectExec({ ...target, namespace: namespaceFlag.read(values), task, request: "exec", signal });
  const { socket } = connection;
  const terminal = values.tty === true ? process.stdout : undefined;
  const start = {
    ...{ command, timeoutMs: timeoutFlag.read(values) },
    ...(terminal === undefined ? {} : { terminal: terminalSize(terminal) }),
  };
  socket.write(encodeFrame("start", Buffer.from(JSON.stringify(start))));
  const restore = forwardInput({ socket, stdin: process.stdin, terminal, takesInput: values.stdin === true });
  try {
    return await printOutput(context, connection, "the connection closed before the command exited");
  } finally {
    restore();
  }
}
