import { readFile } from "node:fs/promises";
import { type Client as RpcClient, createClient, ConnectError, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import type { CommandContext, FlagDefinition } from "@keelson/controller";
import { FastPathService } from "../fastpath/generated/fastpath/v1/fastpath_pb.ts";
import { SandboxStreams } from "../fastpath/generated/keelson/sandboxes/v1/streams_pb.ts";

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
  { name: "namespace", value: "NAME", description: "namespace of the sandbox", default: "default" },
];

/** What is wrong with how a command was called. */
export class CommandError extends Error {
  override readonly name = "CommandError";
}

/** A connection to the fast path. */
export interface Connection {
  readonly fastPath: RpcClient<typeof FastPathService>;
  readonly streams: RpcClient<typeof SandboxStreams>;
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
    throw new CommandError(`--token-file: ${(error as Error).message}`);
  }
  const endpoint = textFlag(context, "endpoint") ?? "";
  const baseUrl = /^https?:/.test(endpoint) ? endpoint : `http://${endpoint}`;
  if (!URL.canParse(baseUrl)) throw new CommandError(`--endpoint: ${JSON.stringify(endpoint)} has to be like 127.0.0.1:9090`);
  const authorize: Interceptor = (next) => (request) => {
    request.header.set("authorization", `Bearer ${token}`);
    return next(request);
  };
  const transport = createGrpcTransport({ baseUrl, interceptors: [authorize] });
  return {
    fastPath: createClient(FastPathService, transport),
    streams: createClient(SandboxStreams, transport),
    namespace: textFlag(context, "namespace") ?? "default",
  };
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
      context.stderr.write(`${error.rawMessage}\n`);
      return 1;
    }
    throw error;
  }
}
