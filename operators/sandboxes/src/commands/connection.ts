import { readFile } from "node:fs/promises";
import { Code, ConnectError } from "@connectrpc/connect";
import type { CommandContext, FlagDefinition } from "@keelson/operator";
import { createFastPathClient, type FastPathClient } from "../fastpath/client.ts";

/** Flags of every command that talks to the fast path. */
export const connectionFlags: readonly FlagDefinition[] = [
  {
    name: "endpoint",
    value: "HOST:PORT",
    description: "the fast path",
    default: "127.0.0.1:9090",
    env: "KEELSON_SANDBOX_ENDPOINT",
  },
  {
    name: "token-file",
    value: "FILE",
    description: "file with its token",
    default: ".keelson/sandboxes/fastpath-token",
    env: "KEELSON_SANDBOX_TOKEN_FILE",
  },
  { name: "namespace", short: "n", value: "NAME", description: "namespace of the sandbox", default: "default" },
];

/** What is wrong with how a command was called. */
export class CommandError extends Error {
  override readonly name = "CommandError";
}

/** A connection to the fast path. */
export interface Connection extends FastPathClient {
  readonly namespace: string;
}

/** A flag that is text and not empty. */
export function textFlag({ flags }: Pick<CommandContext, "flags">, name: string): string | undefined {
  const value = flags[name];
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** The values of a flag that may be repeated. */
export function listFlag({ flags }: Pick<CommandContext, "flags">, name: string): readonly string[] {
  const value = flags[name];
  if (value === undefined || value === true) return [];
  return typeof value === "string" ? [value] : value;
}

/** Connects as the flags say. Throws a {@link CommandError} where the token cannot be read. */
export async function connectFastPath(context: CommandContext): Promise<Connection> {
  const file = textFlag(context, "token-file") ?? "";
  let token: string;
  try {
    token = (await readFile(file, "utf8")).trim();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new CommandError(
      `--token-file: ${reason}; it is DIR/sandboxes/fastpath-token of the \`keelson up --data-dir DIR\` that runs`,
    );
  }
  const endpoint = textFlag(context, "endpoint") ?? "";
  const baseUrl = /^https?:/.test(endpoint) ? endpoint : `http://${endpoint}`;
  if (!URL.canParse(baseUrl)) throw new CommandError(`--endpoint: ${JSON.stringify(endpoint)} has to be like 127.0.0.1:9090`);
  return { ...createFastPathClient({ baseUrl, token }), namespace: textFlag(context, "namespace") ?? "default" };
}

/** What to do next, where the error itself does not say so. */
function adviceFor({ code, rawMessage }: ConnectError, context: CommandContext): string {
  if (code === Code.Unavailable && /ECONNREFUSED|ENOTFOUND|EHOSTUNREACH/.test(rawMessage))
    return `\nNothing answers at ${textFlag(context, "endpoint") ?? ""}: start it with \`keelson up\`, or name another with --endpoint`;
  if (code === Code.Unauthenticated) return "\nIs --token-file that of the server at --endpoint?";
  if (code === Code.NotFound)
    return `\nSee what there is: keelson sandbox list -n ${textFlag(context, "namespace") ?? "default"}`;
  return "";
}

/** Runs a command's work and says in one line what went wrong. */
export async function runWith(context: CommandContext, work: (connection: Connection) => Promise<number>): Promise<number> {
  try {
    return await work(await connectFastPath(context));
  } catch (error) {
    if (context.signal.aborted) return 130;
    if (error instanceof CommandError) {
      context.stderr.write(`${error.message}\n`);
      return 2;
    }
    if (error instanceof ConnectError) {
      context.stderr.write(`${error.rawMessage}${adviceFor(error, context)}\n`);
      return 1;
    }
    throw error;
  }
}
