import { readFile } from "node:fs/promises";
import { isJsonObject } from "@keelson/api-machinery";
import { findConnection } from "@keelson/client";
import type { CommandContext } from "@keelson/operator";
import { invalidFlag, isUsageError, textFlag, UsageError } from "@keelson/operator/flags";
import type { ConnectExecOptions } from "../../exec/connect-exec.ts";
import { RobotsError } from "../../robots-error.ts";

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
};

/** The flags that say which operator serves a request about a task. */
export const execTargetFlags = Object.values(flags);

/** Prints why a request failed. Returns the command's status. **Errors**: throws what is a bug. */
export function execFailure({ signal, stderr }: CommandContext, error: unknown): number {
  if (signal.aborted) return 130;
  if (!isUsageError(error) && !isExpected(error)) throw error;
  stderr.write(`${error.message}\n`);
  return isUsageError(error) ? 2 : 1;
}

const isExpected = (error: unknown): error is Error =>
  error instanceof RobotsError ||
  (error instanceof Error && "code" in error && /^(E[A-Z]+$|ERR_TLS|UNABLE|SELF_SIGNED|DEPTH)/.test(String(error.code)));

/** An operator, and the token for it. */
type Target = Pick<ConnectExecOptions, "url" | "token" | "authority">;

/** Which server to connect to, with which token. **Errors**: `UsageError` if the credentials cannot be read. */
export async function readExecTarget(context: CommandContext): Promise<Target> {
  const { flags: values, signal } = context;
  const url = flags.endpoint.read(values);
  if (url === undefined) return localTarget(flags.accessFile.read(values));
  // Tokens of the cluster are sent over TLS only.
  if (!URL.canParse(url) || new URL(url).protocol !== "https:")
    throw invalidFlag(flags.endpoint, url, "must be of the form https://host:port");
  const file = flags.authority.read(values);
  if (file === undefined)
    throw new UsageError("--certificate-authority: required with --endpoint: exec-ca.crt of the operator");
  const { kubeconfig, context: name } = values;
  const { transport } = await findConnection({
    ...(typeof kubeconfig === "string" && { kubeconfig }),
    ...(typeof name === "string" && { context: name }),
    signal,
  });
  // Ignored, it would give the command more permissions than requested.
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
