import type { IncomingHttpHeaders } from "node:http";
import { isIP } from "node:net";

/**
 * The addresses of a request's client and of proxies in between: those of `X-Forwarded-For`, `X-Real-Ip` if it is not among them, and the
 * peer of the connection if it is not the last one. Only the last address can be trusted.
 */
export function sourceAddresses(headers: IncomingHttpHeaders, peer: string | undefined): readonly string[] {
  const addresses = [headers["x-forwarded-for"] ?? []]
    .flat()
    .join(",")
    .split(",")
    .map((text) => text.trim())
    .filter((text) => isIP(text) !== 0);
  const real = [headers["x-real-ip"] ?? []].flat()[0]?.trim() ?? "";
  if (isIP(real) !== 0 && !addresses.includes(real)) addresses.push(real);
  const own = peer?.replace(/^::ffff:(?=\d+\.)/, "") ?? "";
  if (own !== "" && addresses.at(-1) !== own) addresses.push(own);
  return addresses;
}
