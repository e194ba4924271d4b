import { readFile } from "node:fs/promises";

/** The state LISTEN of a socket in `/proc/net/tcp`. */
const listening = "0A";
/** How `/proc/net/tcp6` begins an IPv4 address, which is that of a program that uses IPv6 sockets for both. */
const mappedPrefix = "0000000000000000FFFF0000";

/**
 * The IPv4 addresses on which a program of this machine listens for TCP connections, in this network namespace. Empty where there is no
 * `/proc`.
 */
export async function listeningAddresses(
  read: (file: string) => Promise<string> = (file) => readFile(file, "latin1"),
): Promise<readonly string[]> {
  const tables = await Promise.all(["/proc/net/tcp", "/proc/net/tcp6"].map((file) => read(file).catch(() => "")));
  const addresses = tables.flatMap((table) => table.split("\n").flatMap(addressOf));
  return [...new Set(addresses)];
}

/** The address of a line `sl local_address rem_address st …`, whose addresses are hexadecimal with the last octet first. */
function addressOf(line: string): readonly string[] {
  const [, local = "", , state] = line.trim().split(/\s+/);
  const [hex = ""] = local.replace(mappedPrefix, "").split(":");
  if (state !== listening || !/^[0-9A-F]{8}$/.test(hex)) return [];
  return [[6, 4, 2, 0].map((start) => Number.parseInt(hex.slice(start, start + 2), 16)).join(".")];
}
