import { isIP } from "node:net";
import { UsageError } from "@keelson/operator/flags";

/** The address that a server listens on. */
export interface BindAddress {
  readonly host: string;
  readonly port: number;
}

/**
 * Parses the value of a flag such as `--metrics-bind-address`, in controller-runtime's format: `IP:PORT`, `:PORT` for all addresses,
 * or `0` to disable the server (`undefined`).
 *
 * **Errors**: `UsageError` that names the flag.
 */
export function parseBindAddress(flag: string, text: string): BindAddress | undefined {
  if (text === "0") return undefined;
  // Brackets are optional, so that `$(POD_IP):8080` is valid for both address families.
  const [, bracketed, plain = "", digits = ""] = text.match(/^(?:\[([^\]]*)\]|(.*)):(\d{1,5})$/) ?? [];
  const host = bracketed ?? (plain === "" ? "::" : plain === "localhost" ? "127.0.0.1" : plain);
  const port = Number(digits);
  if (digits === "" || port > 65_535 || isIP(host) === 0)
    throw new UsageError(
      `${flag}: ${JSON.stringify(text)} is not a valid address: must be IP:PORT, :PORT for all addresses, or 0 to disable`,
    );
  return { host, port };
}

/** Whether the address is a loopback address. */
export function isLoopback({ host }: BindAddress): boolean {
  return host === "::1" || host.startsWith("127.");
}
