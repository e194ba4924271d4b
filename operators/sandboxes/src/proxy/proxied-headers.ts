import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { takeSignature } from "./proxy-url.ts";

/** Name of the cookie that a signature is exchanged for. With TLS the prefix ties it to its host (RFC 6265bis section 4.1.3.2). */
export const cookieName = (isSecure: boolean): string => (isSecure ? "__Host-keelson-sandbox" : "keelson-sandbox");

/** Headers of one connection (RFC 9110 section 7.6.1), and those that the proxy sets. */
const ownHeaders = new Set([
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "forwarded",
  "host",
  "x-forwarded-for",
  "x-forwarded-host",
  "x-forwarded-proto",
  "x-real-ip",
]);

/** Headers of an answer that take effect beyond its own host. */
const siteHeaders = new Set(["alt-svc", "clear-site-data"]);

/** Headers that `Connection` names. Without its length, the rest of a body would be the next request. */
function namedBy({ connection }: IncomingHttpHeaders): ReadonlySet<string> {
  const names = (connection ?? "").split(",").map((name) => name.trim().toLowerCase());
  return new Set(names.filter((name) => name !== "content-length"));
}

/** Name and value of each header that passes, in order. */
function* passing({ rawHeaders, headers }: IncomingMessage): Generator<readonly [name: string, value: string]> {
  const named = namedBy(headers);
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const [name = "", value = ""] = rawHeaders.slice(index, index + 2);
    const lower = name.toLowerCase();
    if (!ownHeaders.has(lower) && !named.has(lower)) yield [name, value];
  }
}

/** How a request is forwarded. */
export interface ForwardOptions {
  readonly isSecure: boolean;
  /** Whether `Authorization` was checked by the proxy, so that the sandbox must not see it. */
  readonly hidesAuthorization: boolean;
}

/** The headers of a request as the sandbox gets them: without those of the connection, and without credentials of the proxy. */
export function requestHeaders(request: IncomingMessage, { isSecure, hidesAuthorization }: ForwardOptions): string[] {
  const headers: string[] = [];
  for (const [name, value] of passing(request)) {
    const lower = name.toLowerCase();
    if (lower === "authorization" && hidesAuthorization) continue;
    const passed = withoutSignature(lower, value);
    if (passed !== "") headers.push(name, passed);
  }
  const { headers: received, socket } = request;
  const host = received.host ?? "";
  const isUpgrade = received.upgrade !== undefined && namedBy(received).has("upgrade");
  const upgrade = isUpgrade ? ["Upgrade", "websocket"] : [];
  // Node.js would send the body of a GET request without a length.
  const encoding = received["transfer-encoding"] === undefined ? [] : ["Transfer-Encoding", "chunked"];
  return [
    ...["Host", host, ...headers, "Connection", upgrade.length > 0 ? "Upgrade" : "close", ...upgrade, ...encoding],
    ...["X-Forwarded-For", socket.remoteAddress ?? "", "X-Forwarded-Host", host],
    ...["X-Forwarded-Proto", isSecure ? "https" : "http"],
  ];
}

/** The headers of a sandbox's answer as the client gets them. A sandbox sets cookies of its own host only, and not those of the proxy. */
export function responseHeaders(response: IncomingMessage): string[] {
  const headers: string[] = [];
  for (const [name, value] of passing(response)) {
    const lower = name.toLowerCase();
    if (siteHeaders.has(lower)) continue;
    if (lower !== "set-cookie") headers.push(name, value);
    else if (!isOwnCookie(value)) headers.push(name, value.replace(/;\s*domain\s*(?:=[^;]*)?(?=;|$)/gi, ""));
  }
  return headers;
}

/** The values of the proxy's cookie. A neighbour can add others with its name. */
export function signaturesOf(cookies: string | undefined, isSecure: boolean): readonly string[] {
  const start = `${cookieName(isSecure)}=`;
  return cookiesOf(cookies ?? "").flatMap((cookie) => (cookie.startsWith(start) ? [cookie.slice(start.length)] : []));
}

const cookiesOf = (header: string): readonly string[] => header.split(";").map((cookie) => cookie.trim());

function isOwnCookie(cookie: string): boolean {
  const name = cookie.split("=", 1)[0]?.trim().toLowerCase();
  return [true, false].some((isSecure) => cookieName(isSecure).toLowerCase() === name);
}

/** The value of a header without a signature. A style sheet with a signed URL is the referrer of what it loads. */
function withoutSignature(name: string, value: string): string {
  if (name === "cookie") return withoutOwnCookies(value);
  return name === "referer" ? takeSignature(value).target : value;
}

const withoutOwnCookies = (header: string): string =>
  cookiesOf(header)
    .filter((cookie) => !isOwnCookie(cookie))
    .join("; ");
