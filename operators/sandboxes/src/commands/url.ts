import type { CommandDefinition, FlagValues } from "@keelson/operator";
import { durationFlag, UsageError } from "@keelson/operator/flags";
import { connectionFlags, runWith } from "./connection.ts";

const expiresFlag = durationFlag({
  name: "expires",
  description: "time after which the URL no longer grants access, at most 168h",
  default: "1h",
  bareUnit: "s",
});

/** `keelson sandbox url`: prints a URL that grants access to an exposed port. */
export const urlCommand: CommandDefinition = {
  name: "url",
  description: "print a URL that grants access to an exposed port until it expires: keelson sandbox url NAME 8080",
  args: ["NAME", "PORT"],
  flags: [...connectionFlags, expiresFlag],
  run: (context) =>
    runWith(context, async ({ ports, namespace }) => {
      const [sandboxName = "", text = ""] = context.args;
      const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
      if (port < 1 || port > 65_535) throw new UsageError(`PORT: ${JSON.stringify(text)} must be 1 to 65535`);
      const expiresInMs = readExpiry(context.flags);
      const { url } = await ports.createUrl({ sandboxName, namespace, port, expiresInMs }, { signal: context.signal });
      context.stdout.write(`${url}\n`);
      return 0;
    }),
};

/** The value of `--expires` in milliseconds; the server would take 0 for its default. **Errors**: `UsageError` unless it is positive. */
export function readExpiry(flags: FlagValues): bigint {
  const expiresInMs = BigInt(expiresFlag.read(flags));
  if (expiresInMs <= 0n) throw new UsageError("--expires: must be greater than 0");
  return expiresInMs;
}
