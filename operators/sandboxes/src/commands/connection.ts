import { readFile } from "node:fs/promises";
import { Code, ConnectError } from "@connectrpc/connect";
import type { CommandContext, FlagDefinition } from "@keelson/operator";
import { invalidFlag, isUsageError, textFlag, UsageError } from "@keelson/operator/flags";
import { createFastPathClient, type FastPathClient } from "../fastpath/client.ts";

const endpointFlag = textFlag({
  name: "endpoint",
  value: "HOST:PORT",
  description: "address of the fast path",
  default: "127.0.0.1:9090",
  env: "KEELSON_SANDBOX_ENDPOINT",
});
const tokenFileFlag = textFlag({
  name: "token-file",
  value: "FILE",
  description: "file with the fast path's token",
  default: ".keelson/sandboxes/fastpath-token",
  env: "KEELSON_SANDBOX_TOKEN_FILE",
});
const namespaceFlag = textFlag({
  name: "namespace",
  short: "n",
  value: "NAME",
  description: "namespace of the sandbox",
  default: "default",
});

/** Flags of every command that calls the fast path. */
export const connectionFlags: readonly FlagDefinition[] = [endpointFlag, tokenFileFlag, namespaceFlag];

/** A connection to the fast path. */
export interface Connection extends FastPathClient {
  readonly namespace: string;
}

/** Connects to the fast path. Throws a {@link UsageError} if the token cannot be read. */
async function connectFastPath(context: CommandContext): Promise<Connection> {
  const file = tokenFileFlag.read(context.flags);
  let token: string;
  try {
    token = (await readFile(file, "utf8")).trim();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new UsageError(
      `--token-file: ${reason}; use DIR/sandboxes/fastpath-token of the running \`keelson up --data-dir DIR\``,
    );
  }
  const endpoint = endpointFlag.read(context.flags);
  const baseUrl = /^https?:/.test(endpoint) ? endpoint : `http://${endpoint}`;
  if (!URL.canParse(baseUrl)) throw invalidFlag(endpointFlag, endpoint, "must have the form 127.0.0.1:9090");
  return { ...createFastPathClient({ baseUrl, token }), namespace: namespaceFlag.read(context.flags) };
}

/** The next step, if the error itself does not name it. */
function adviceFor({ code, rawMessage }: ConnectError, context: CommandContext): string {
  if (code === Code.Unavailable && /ECONNREFUSED|ENOTFOUND|EHOSTUNREACH/.test(rawMessage))
    return `\nNothing listens on ${endpointFlag.read(context.flags)}: start it with \`keelson up\`, or pass --endpoint`;
  if (code === Code.Unauthenticated) return "\nCheck that --token-file belongs to the server at --endpoint";
  if (code === Code.NotFound) return `\nList sandboxes: keelson sandbox list -n ${namespaceFlag.read(context.flags)}`;
  return "";
}

/** Runs a command and reports an error in one line. */
export async function runWith(context: CommandContext, work: (connection: Connection) => Promise<number>): Promise<number> {
  try {
    return await work(await connectFastPath(context));
  } catch (error) {
    if (context.signal.aborted) return 130;
    if (isUsageError(error)) {
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
