import type { ReadStream } from "node:tty";
import { create } from "@bufbuild/protobuf";
import type { CommandContext, CommandDefinition } from "@keelson/operator";
import { pairsFlag, textFlag, UsageError } from "@keelson/operator/flags";
import { type ExecRequest, ExecRequestSchema, ExecStartSchema, TerminalSizeSchema } from "@keelson/sandbox/protocol";
import { type Connection, connectionFlags, runWith } from "./connection.ts";

type Request = ExecRequest["request"];

const execFlags = {
  env: pairsFlag({ name: "env", value: "NAME=VALUE", description: "environment variable of the command" }),
  workingDir: textFlag({ name: "working-dir", value: "DIR", description: "directory in which the command starts" }),
  user: textFlag({
    name: "user",
    short: "u",
    value: "USER[:GROUP]",
    description: "user of the command inside the sandbox: a name of its image, a uid or uid:gid",
  }),
};

/** `keelson sandbox exec`: runs a command in a running sandbox, optionally on this terminal. */
export const execCommand: CommandDefinition = {
  name: "exec",
  description: "run a command in a sandbox: keelson sandbox exec -it NAME -- sh",
  args: ["NAME", "[COMMAND...]"],
  flags: [
    ...connectionFlags,
    ...Object.values(execFlags),
    { name: "stdin", short: "i", description: "forward standard input" },
    { name: "tty", short: "t", description: "allocate a terminal" },
    { name: "detach", short: "d", description: "start the command in the background and print its id" },
  ],
  run: (context) =>
    runWith(context, async ({ streams, processes, namespace }) => {
      const [sandboxName = "", ...command] = context.args;
      if (command.length === 0) throw new UsageError("COMMAND: required, after --, as in: exec NAME -- sh");
      if (context.flags.detach === true) return startDetached(context, { processes, namespace }, sandboxName, command);
      const hasTerminal = context.flags.tty === true;
      const input = createInput({ takesStdin: context.flags.stdin === true, hasTerminal });
      const terminal = hasTerminal ? create(TerminalSizeSchema, terminalSize()) : undefined;
      input.push({
        case: "start",
        value: create(ExecStartSchema, {
          ...{ sandboxName, namespace, command },
          env: Object.fromEntries(execFlags.env.read(context.flags)),
          workingDir: execFlags.workingDir.read(context.flags) ?? "",
          user: execFlags.user.read(context.flags) ?? "",
          ...(terminal && { terminal }),
        }),
      });
      try {
        for await (const { response } of streams.exec(input.requests(), { signal: context.signal })) {
          if (response.case === "exitCode") return response.value;
          if (response.case === undefined) continue;
          const out = response.case === "stdout" ? context.stdout : context.stderr;
          if (!out.write(response.value)) await new Promise((resolve) => out.once("drain", resolve));
        }
        context.stderr.write("the connection closed before the command exited\n");
        return 1;
      } finally {
        input.close();
      }
    }),
};

/** Starts a command in the background and prints its id. */
async function startDetached(
  context: CommandContext,
  { processes, namespace }: Pick<Connection, "processes" | "namespace">,
  sandboxName: string,
  command: readonly string[],
): Promise<number> {
  if (context.flags.stdin === true || context.flags.tty === true)
    throw new UsageError("--detach cannot be combined with --stdin or --tty");
  const { processId } = await processes.start(
    {
      ...{ sandboxName, namespace, command: [...command] },
      env: Object.fromEntries(execFlags.env.read(context.flags)),
      workingDir: execFlags.workingDir.read(context.flags) ?? "",
      user: execFlags.user.read(context.flags) ?? "",
    },
    { signal: context.signal },
  );
  context.stdout.write(`${processId}\n`);
  return 0;
}

/** The size of this terminal; 80x24 without one. */
const terminalSize = (): { columns: number; rows: number } => ({
  columns: process.stdout.columns || 80,
  rows: process.stdout.rows || 24,
});

/** The requests to send, in order: pushed requests, standard input and terminal resizes. */
function createInput(options: { readonly takesStdin: boolean; readonly hasTerminal: boolean }): {
  push(request: Request): void;
  requests(): AsyncIterable<ExecRequest>;
  close(): void;
} {
  const { stdin } = process;
  const waiting: Request[] = [];
  let wake = (): void => {};
  let isClosed = false;
  const push = (request: Request): void => {
    waiting.push(request);
    wake();
  };
  const isRaw = options.hasTerminal && options.takesStdin && stdin.isTTY;
  const onResize = (): void => push({ case: "resize", value: create(TerminalSizeSchema, terminalSize()) });
  const onEnd = (): void => push({ case: "closeStdin", value: true });
  const onData = (data: Buffer): void => {
    push({ case: "stdin", value: data });
    // Resumed once it is sent, so that a fast writer does not fill the memory.
    stdin.pause();
  };
  if (options.takesStdin) {
    if (isRaw) (stdin as ReadStream).setRawMode(true);
    stdin.on("data", onData).on("end", onEnd);
  } else onEnd();
  if (options.hasTerminal) process.stdout.on("resize", onResize);
  return {
    push: (request) => {
      waiting.unshift(request);
      wake();
    },
    async *requests() {
      while (!isClosed) {
        const request = waiting.shift();
        if (request !== undefined) {
          yield create(ExecRequestSchema, { request });
          if (request.case === "stdin" && !isClosed) stdin.resume();
        } else await new Promise<void>((resolve) => (wake = resolve));
      }
    },
    close() {
      isClosed = true;
      wake();
      process.stdout.off("resize", onResize);
      if (!options.takesStdin) return;
      stdin.off("data", onData).off("end", onEnd).pause();
      if (isRaw) (stdin as ReadStream).setRawMode(false);
      stdin.unref?.();
    },
  };
}
