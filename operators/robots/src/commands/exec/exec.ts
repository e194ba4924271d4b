import { readFile } from "node:fs/promises";
import { isJsonObject } from "@keelson/api-machinery";
import { findConnection } from "@keelson/client";
import type { CommandContext, CommandDefinition } from "@keelson/operator";
import { durationFlag, invalidFlag, isUsageError, textFlag, UsageError } from "@keelson/operator/flags";
import { connectExec, type ConnectExecOptions } from "../../exec/connect-exec.ts";
import { encodeFrame, readFrames } from "../../exec/exec-frames.ts";
import { maxExecTimeoutMs } from "../../protocol/exec-messages.ts";
import { RobotsError } from "../../robots-error.ts";
import { forwardInput, terminalSize } from "./exec-terminal.ts";
import { namespaceFlag } from "../flags.ts";

const flags = {
  accessFile: textFlag({
    name: "access-file",
    value: "FILE",
    description: "file with the address and token of an operator on this machine",
    default: ".keelson/robots/exec-access.json",
    env: "KEELSON_ROBOTS_EXEC_FILE",
  }),
  endpoint: textFlag({
    name: "endpoint",
    value: "URL",
    description: "https address of the operator's exec server, with the token of the kubeconfig, instead of --access-file",
    env: "KEELSON_ROBOTS_EXEC_ENDPOINT",
  }),
  authority: textFlag({
    name: "certificate-authority",
    value: "FILE",
    description: "authority of the server at --endpoint: exec-ca.crt of the operator",
    env: "KEELSON_ROBOTS_EXEC_CA_FILE",
  }),
  timeout: durationFlag({
    name: "timeout",
    description: "end the command after this time, at most 24h",
    default: "1h",
    minMs: 1000,
    maxMs: maxExecTimeoutMs,
  }),
};

/** `keelson robots exec TASK -- COMMAND`. */
export const execCommand: CommandDefinition = {
  name: "exec",
  description: "run a command beside the program of a running task: keelson robots exec -it TASK -- sh",
  args: ["TASK", "[COMMAND...]"],
  flags: [
    namespaceFlag,
    ...Object.values(flags),
    { name: "stdin", short: "i", description: "forward standard input" },
    { name: "tty", short: "t", description: "allocate a terminal" },
  ],
  async run(context) {
    try {
      return await exec(context);
    } catch (error) {
      if (context.signal.aborted) return 130;
      if (!isUsageError(error) && !isExpected(error)) throw error;
      context.stderr.write(`${error.message}\n`);
      return isUsageError(error) ? 2 : 1;
    }
  },
};

const isExpected = (error: unknown): error is Error =>
  error instanceof RobotsError ||
  (error instanceof Error && "code" in error && /^(E[A-Z]+$|ERR_TLS|UNABLE|SELF_SIGNED|DEPTH)/.test(String(error.code)));

async function exec(context: CommandContext): Promise<number> {
  const { args, flags: values, signal, stdout, stderr } = context;
  const [task = "", ...command] = args;
  if (command.length === 0) throw new UsageError("COMMAND: required, after --, as in: exec TASK -- sh");
  const target = await targetOf(context);
  const { socket, head } = await connectExec({ ...target, namespace: namespaceFlag.read(values), task, signal });
  const onAbort = (): void => void socket.destroy();
  signal.addEventListener("abort", onAbort, { once: true });
  const terminal = values.tty === true ? process.stdout : undefined;
  const start = {
    ...{ command, timeoutMs: flags.timeout.read(values) },
    ...(terminal === undefined ? {} : { terminal: terminalSize(terminal) }),
  };
  socket.write(encodeFrame("start", Buffer.from(JSON.stringify(start))));
  const restore = forwardInput({ socket, stdin: process.stdin, terminal, takesInput: values.stdin === true });
  try {
    for await (const { type, data } of readFrames(socket, head)) {
      if (type === "exit") return exitCodeOf(data);
      if (type === "error") throw new RobotsError("ExecRejected", messageOf(data));
      if (type !== "stdout" && type !== "stderr") continue;
      const out = type === "stdout" ? stdout : stderr;
      if (!out.write(data)) await new Promise((resolve) => out.once("drain", resolve));
    }
    signal.throwIfAborted();
    stderr.write("the connection closed before the command exited\n");
    return 1;
  } finally {
    restore();
    signal.removeEventListener("abort", onAbort);
    socket.destroy();
  }
}

type Target = Pick<ConnectExecOptions, "url" | "token" | "authority">;

/** Which server to connect to, with which token. **Errors**: `UsageError` if the credentials cannot be read. */
async function targetOf(context: CommandContext): Promise<Target> {
  const { flags: values, signal } = context;
  const url = flags.endpoint.read(values);
  if (url === undefined) return localTarget(flags.accessFile.read(values));
  // Tokens of the cluster are sent over TLS only.
  if (!URL.canParse(url) || new URL(url).protocol !== "https:")
    throw invalidFlag(flags.endpoint, url, "must have the form https://host:port");
  const file = flags.authority.read(values);
  if (file === undefined)
    throw new UsageError("--certificate-authority: required with --endpoint: exec-ca.crt of the operator");
  const { kubeconfig, context: name } = values;
  const { transport } = await findConnection({
    ...(typeof kubeconfig === "string" && { kubeconfig }),
    ...(typeof name === "string" && { context: name }),
    signal,
  });
  // Ignored, it would give the command more rights than requested.
  if (transport.impersonate !== undefined)
    throw new UsageError("the kubeconfig's user has impersonation (as), which is not supported");
  const { token } = (await transport.credentials?.get(signal)) ?? {};
  if (token === undefined)
    throw new UsageError("the kubeconfig has no token: kubectl create token gives one to a ServiceAccount");
  return { url, token, authority: await readText(file, "--certificate-authority") };
}

async function localTarget(file: string): Promise<Target> {
  let access: unknown;
  try {
    access = JSON.parse(await readText(file, "--access-file"));
  } catch (error) {
    if (isUsageError(error)) throw error;
    access = undefined;
  }
  if (!isJsonObject(access) || typeof access.url !== "string" || typeof access.token !== "string")
    throw new UsageError(`--access-file: ${file} is not the exec-access.json of an operator`);
  return { url: access.url, token: access.token };
}

async function readText(file: string, flag: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const advice =
      flag === "--access-file"
        ? "; use DIR/robots/exec-access.json of the running keelson up --data-dir DIR, or --endpoint"
        : "";
    throw new UsageError(`${flag}: ${message}${advice}`, { cause: error });
  }
}

function exitCodeOf(data: Buffer): number {
  const end: unknown = JSON.parse(data.toString("utf8"));
  return isJsonObject(end) && typeof end.exitCode === "number" ? end.exitCode : 1;
}

function messageOf(data: Buffer): string {
  const end: unknown = JSON.parse(data.toString("utf8"));
  return isJsonObject(end) && typeof end.message === "string" ? end.message : "the command failed";
}
