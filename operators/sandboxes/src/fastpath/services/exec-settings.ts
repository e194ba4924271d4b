import { Code, ConnectError } from "@connectrpc/connect";
import type { ExecSettings } from "../../fleet/exec-connection.ts";
import { isTerminalSize } from "../../protocol/exec-frames.ts";

/** A terminal's size, if one is requested. **Errors**: InvalidArgument. */
export function terminalSize(
  terminal: { readonly columns: number; readonly rows: number } | undefined,
): { readonly columns: number; readonly rows: number } | undefined {
  if (terminal === undefined) return undefined;
  const { columns, rows } = terminal;
  if (!isTerminalSize({ columns, rows }))
    throw new ConnectError("terminal: columns and rows must be 1 to 10000", Code.InvalidArgument);
  return { columns, rows };
}

/** A uid, uid:gid, or a name, in which passwd(5) allows any character but a colon. */
const userPattern = /^(?:\d{1,10}(?::\d{1,10})?|[^\s:/]{1,64})$/;

/**
 * Variables, working directory and user of a command; an empty directory or user is the sandbox's. **Errors**: InvalidArgument with the
 * field's name.
 */
export function commandSettings({
  env,
  workingDir,
  user,
}: {
  readonly env: Readonly<Record<string, string>>;
  readonly workingDir: string;
  readonly user: string;
}): ExecSettings & { readonly env: Readonly<Record<string, string>> } {
  for (const name of Object.keys(env)) {
    if (name === "" || name.includes("=") || name.includes("\0"))
      throw new ConnectError(`env: ${JSON.stringify(name)} is not a valid variable name`, Code.InvalidArgument);
  }
  if (workingDir !== "" && !workingDir.startsWith("/"))
    throw new ConnectError("working_dir: must be an absolute path", Code.InvalidArgument);
  if (user !== "" && (user.includes("\0") || !userPattern.test(user)))
    throw new ConnectError(`user: ${JSON.stringify(user)} must be a name, a uid or uid:gid`, Code.InvalidArgument);
  return { env, ...(workingDir !== "" && { workingDir }), ...(user !== "" && { user }) };
}
