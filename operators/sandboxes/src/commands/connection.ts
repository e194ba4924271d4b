import { readFile } from "node:fs/promises";
import { Code, ConnectError } from "@connectrpc/connect";
import type { CommandContext, FlagDefinition } from "@keelson/operator";
import { invalidFlag, isUsageError, textFlag, UsageError } from "@keelson/operator/flags";
import { type Credentials, findConnection, isTransportError, KubeconfigError } from "@keelson/client";
import { createFastPathClient, type FastPathClient, type FastPathClientOptions } from "../fastpath/client.ts";

const endpointFlag = textFlag({
  name: "endpoint",
  value: "HOST:PORT",
  description: "address of the fast path; with https://, calls use TLS and the credentials of the kubeconfig",
  default: "127.0.0.1:9090",
  env: "KEELSON_SANDBOX_ENDPOINT",
});
const tokenFileFlag = textFlag({
  name: "token-file",
  value: "FILE",
  description: "file with the fast path's token, instead of the kubeconfig's credentials",
  default: ".keelson/sandboxes/fastpath-token",
  env: "KEELSON_SANDBOX_TOKEN_FILE",
});
const authorityFlag = textFlag({
  name: "certificate-authority",
  value: "FILE",
  description: "authority that signed the fast path's certificate (default: those that Node.js trusts)",
  env: "KEELSON_SANDBOX_CA_FILE",
});
const namespaceFlag = textFlag({
  name: "namespace",
  short: "n",
  value: "NAME",
  description: "namespace of the sandbox",
  default: "default",
});

/** Flags of every command that calls the fast path. */
export const connectionFlags: readonly FlagDefinition[] = [endpointFlag, tokenFileFlag, authorityFlag, namespaceFlag];

/** A connection to the fast path. */
export interface Connection extends FastPathClient {
  readonly namespace: string;
}

/** Connects to the fast path. Throws a {@link UsageError} if the credentials cannot be read. */
async function connectFastPath(context: CommandContext): Promise<Connection> {
  const endpoint = endpointFlag.read(context.flags);
  const baseUrl = /^https?:/.test(endpoint) ? endpoint : `http://${endpoint}`;
  if (!URL.canParse(baseUrl)) throw invalidFlag(endpointFlag, endpoint, "must be of the form 127.0.0.1:9090");
  const credentials = usesKubeconfig(context) ? await clusterCredentials(context) : { token: await readToken(context) };
  const ca = await readAuthority(context);
  const tls = { ...credentials.tls, ...(ca !== undefined && { ca }) };
  return { ...createFastPathClient({ baseUrl, ...credentials, tls }), namespace: namespaceFlag.read(context.flags) };
}

/** Credentials of the cluster are sent over TLS only. */
function usesKubeconfig({ flags }: CommandContext): boolean {
  return endpointFlag.read(flags).startsWith("https:") && tokenFileFlag.read(flags) === tokenFileFlag.default;
}

async function readToken({ flags }: CommandContext): Promise<string> {
  try {
    return (await readFile(tokenFileFlag.read(flags), "utf8")).trim();
  } catch (error) {
    throw new UsageError(
      `--token-file: ${messageOf(error)}; use DIR/sandboxes/fastpath-token of the running \`keelson up --data-dir DIR\`, or an endpoint with https://`,
    );
  }
}

async function readAuthority({ flags }: CommandContext): Promise<string | undefined> {
  const file = authorityFlag.read(flags);
  if (file === undefined) return undefined;
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    throw new UsageError(`--certificate-authority: ${messageOf(error)}`);
  }
}

/** The credentials of `--kubeconfig` and `--context`. Tokens are requested before each call, as they may expire. */
async function clusterCredentials({ flags, signal }: CommandContext): Promise<Pick<FastPathClientOptions, "token" | "tls">> {
  const { kubeconfig, context } = flags;
  try {
    const { transport } = await findConnection({
      ...(typeof kubeconfig === "string" && { kubeconfig }),
      ...(typeof context === "string" && { context }),
      signal,
    });
    // Ignored, it would give the call more permissions than requested.
    if (transport.impersonate !== undefined)
      throw new UsageError("the kubeconfig's user has impersonation (as), which the fast path does not support");
    const current = async (): Promise<Credentials> => (await transport.credentials?.get(signal)) ?? {};
    const { clientCertificate: cert, clientKey: key, token } = await current();
    if (token === undefined && (cert === undefined || key === undefined))
      throw new UsageError("the kubeconfig has neither a token nor a client certificate; pass --token-file");
    return {
      token: async () => (await current()).token,
      tls: { ...(cert !== undefined && { cert }), ...(key !== undefined && { key }) },
    };
  } catch (error) {
    if (error instanceof KubeconfigError || isTransportError(error))
      throw new UsageError(`${error.message}; or pass --token-file`, { cause: error });
    throw error;
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** The next step, if the error itself does not name it. */
function adviceFor({ code, rawMessage }: ConnectError, context: CommandContext): string {
  if (code === Code.Unavailable && /ECONNREFUSED|ENOTFOUND|EHOSTUNREACH/.test(rawMessage))
    return `\nNothing listens on ${endpointFlag.read(context.flags)}: start it with \`keelson up\`, or pass --endpoint`;
  if (/UNABLE_TO_VERIFY|SELF_SIGNED|unable to verify|self-signed/i.test(rawMessage))
    return "\nPass the server's authority with --certificate-authority: DIR/sandboxes/fastpath-ca.crt of the operator";
  if (code === Code.Unauthenticated)
    return usesKubeconfig(context)
      ? "\nCheck that --kubeconfig and --context belong to the cluster of the server at --endpoint"
      : "\nCheck that --token-file belongs to the server at --endpoint";
  if (code === Code.AlreadyExists && rawMessage.startsWith("sandbox "))
    return `\nChoose another name, or delete it: keelson sandbox delete NAME -n ${namespaceFlag.read(context.flags)}`;
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
