import { readFile } from "node:fs/promises";
import { type FlagValues, invalidFlag, textFlag, UsageError } from "@keelson/operator/flags";

/** `--broker-url`. */
export const brokerUrlFlag = textFlag({
  name: "broker-url",
  value: "URL",
  description: "URL of the MQTT broker",
  default: "tcp://localhost:1883",
});

/** `--token`. */
export const tokenFlag = textFlag({
  name: "token",
  value: "TOKEN",
  description: "join token; visible to other users of this machine, prefer --token-file",
  env: "K8S4R_TOKEN",
});

/** `--token-file`. */
export const tokenFileFlag = textFlag({ name: "token-file", value: "FILE", description: "file with the join token" });

/**
 * The URL of the broker.
 *
 * **Errors**: {@link UsageError} if it is not one.
 */
export function readBrokerUrl(values: FlagValues): string {
  return checkUrl(brokerUrlFlag, brokerUrlFlag.read(values));
}

/** `--join-url`. */
export const joinUrlFlag = textFlag({
  name: "join-url",
  value: "URL",
  description: "broker at which this robot joins and renews its certificate (default: --broker-url)",
});

/** The URL of the broker to join at. **Errors**: {@link UsageError} if it is not one. */
export function readJoinUrl(values: FlagValues): { readonly joinUrl?: string } {
  const url = joinUrlFlag.read(values);
  return url === undefined ? {} : { joinUrl: checkUrl(joinUrlFlag, url) };
}

function checkUrl(flag: Parameters<typeof invalidFlag>[0], url: string): string {
  if (!URL.canParse(url) || !["tcp:", "mqtt:", "mqtts:", "ssl:"].includes(new URL(url).protocol)) {
    throw invalidFlag(flag, url, "must be of the form tcp://host:1883 (or mqtt://, mqtts://, ssl://)");
  }
  return url;
}

/** The join token; undefined if neither flag nor environment has one. **Errors**: {@link UsageError} if the file is unreadable. */
export async function readOptionalToken(values: FlagValues): Promise<string | undefined> {
  const isSet = tokenFileFlag.read(values) !== undefined || (tokenFlag.read(values) ?? "") !== "";
  return isSet ? await readToken(values) : undefined;
}

/**
 * The join token.
 *
 * **Errors**: {@link UsageError} if it is missing or unreadable.
 */
export async function readToken(values: FlagValues): Promise<string> {
  const file = tokenFileFlag.read(values);
  // --token defaults to an environment variable, so an explicit file takes precedence.
  if (file === undefined) {
    const token = tokenFlag.read(values) ?? "";
    if (token === "") throw new UsageError("missing join token: set --token-file, or K8S4R_TOKEN in the environment");
    return token;
  }
  let content: string;
  try {
    content = await readFile(file, "utf8");
  } catch (error) {
    throw new UsageError(`--token-file: ${(error as Error).message}`, { cause: error });
  }
  if (content.trim() === "") throw new UsageError(`--token-file: ${file} is empty`);
  return content.trim();
}
