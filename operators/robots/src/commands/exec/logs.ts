import type { CommandContext, CommandDefinition } from "@keelson/operator";
import { choiceFlag, countFlag, switchFlag } from "@keelson/operator/flags";
import { connectExec } from "../../exec/connect-exec.ts";
import { encodeFrame } from "../../exec/exec-frames.ts";
import { type LogRequest, logStreams, maxTailLines } from "../../protocol/log-messages.ts";
import { execFailure, execTargetFlags, readExecTarget } from "./exec-target.ts";
import { namespaceFlag } from "../flags.ts";
import { printOutput } from "./print-output.ts";

const flags = {
  follow: switchFlag({
    name: "follow",
    short: "f",
    description: "follow the output until the program exits; if the robot is offline, wait for it and continue",
  }),
  tail: countFlag({
    name: "tail",
    value: "LINES",
    description: "number of lines to print from the end (default: everything that the robot still has)",
    min: 0,
    max: maxTailLines,
  }),
  stream: choiceFlag({
    name: "stream",
    value: "STREAM",
    description: "print only this stream (default: both)",
    choices: logStreams,
  }),
};

/** `keelson robots logs TASK`. */
export const logsCommand: CommandDefinition = {
  name: "logs",
  description: "print the output of a running or finished task: keelson robots logs -f TASK",
  args: ["TASK"],
  flags: [namespaceFlag, ...Object.values(flags), ...execTargetFlags],
  async run(context) {
    try {
      return await logs(context);
    } catch (error) {
      return execFailure(context, error);
    }
  },
};

async function logs(context: CommandContext): Promise<number> {
  const { args, flags: values, signal } = context;
  const [task = ""] = args;
  const target = await readExecTarget(context);
  const connection = await connectExec({ ...target, namespace: namespaceFlag.read(values), task, request: "log", signal });
  connection.socket.write(encodeFrame("start", Buffer.from(JSON.stringify(requestOf(values)))));
  return await printOutput(context, connection, "the connection closed before the output ended");
}

function requestOf(values: CommandContext["flags"]): LogRequest {
  const [tailLines, stream] = [flags.tail.read(values), flags.stream.read(values)];
  return {
    isFollowing: flags.follow.read(values),
    streams: stream === undefined ? logStreams : [stream],
    ...(tailLines === undefined ? {} : { tailLines }),
  };
}
