import { spawn } from "node:child_process";
import { ClusterError } from "../cluster-error.ts";

/** Runs a program of the machine with text as its input. Rejects with a {@link ClusterError} that has its error output. */
export function runCommand(command: readonly string[], input = ""): Promise<string> {
  const [program = "", ...args] = command;
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: ["pipe", "pipe", "pipe"] });
    const [output, errors]: [Buffer[], Buffer[]] = [[], []];
    child.stdout.on("data", (bytes: Buffer) => output.push(bytes));
    child.stderr.on("data", (bytes: Buffer) => errors.push(bytes));
    const fail = (reason: string, cause?: unknown): void => {
      reject(new ClusterError("CommandFailed", `${command.join(" ")}: ${reason}`, { cause }));
    };
    child.on("error", (error) => fail(error.message, error));
    child.on("close", (code) => {
      if (code === 0) resolve(Buffer.concat(output).toString());
      else fail(Buffer.concat(errors).toString().trim() || `exit status ${code}`);
    });
    // A program that exits early reports why.
    child.stdin.on("error", () => {});
    child.stdin.end(input);
  });
}

/** Runs commands of `ip`, in a network namespace or on the machine. Stops at the first that fails. */
export async function runIp(namespace: string | undefined, commands: readonly string[]): Promise<void> {
  const where = namespace === undefined ? [] : ["-n", namespace];
  await runCommand(["ip", ...where, "-batch", "-"], commands.map((command) => `${command}\n`).join(""));
}

/** Writes kernel parameters of a network namespace, or of the machine, by path below /proc/sys. */
export async function writeParameters(
  namespace: string | undefined,
  parameters: Readonly<Record<string, string>>,
): Promise<void> {
  const script = Object.keys(parameters).map((path) => `read -r value && echo "$value" > /proc/sys/${path}`);
  const input = Object.values(parameters).map((value) => `${value}\n`);
  const shell = ["sh", "-ec", script.join("\n")] as const;
  await runCommand(namespace === undefined ? shell : ["ip", "netns", "exec", namespace, ...shell], input.join(""));
}
