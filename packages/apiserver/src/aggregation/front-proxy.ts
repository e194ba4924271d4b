import type { UserInfo } from "../registry/served-resource.ts";

/** The client certificate by which extension API servers recognize this server. */
export interface FrontProxy {
  readonly certificate: string;
  readonly key: string;
}

/** The headers that tell an extension API server who sent a request. */
export function userHeaders({ username, uid = "", groups, extra = {} }: UserInfo): Record<string, string | string[]> {
  const headers: Record<string, string | string[]> = { "x-remote-user": headerText(username) };
  if (uid !== "") headers["x-remote-uid"] = headerText(uid);
  if (groups.length > 0) headers["x-remote-group"] = groups.map(headerText);
  for (const [key, values] of Object.entries(extra)) {
    headers[`x-remote-extra-${escapedKey(key)}`] = values.map(headerText);
  }
  return headers;
}

/** Node writes headers as Latin-1. This produces UTF-8 bytes. Line breaks cannot be sent. */
function headerText(text: string): string {
  return Buffer.from(text.replaceAll(/[\r\n\0]/g, " "), "utf8").toString("latin1");
}

/** Keys are percent-encoded except for the characters of header names (RFC 7230), as in client-go. */
function escapedKey(key: string): string {
  const bytes = [...Buffer.from(key.toLowerCase(), "utf8")];
  return bytes
    .map((byte) => {
      const character = String.fromCharCode(byte);
      return /[!#$&'*+\-.^_`|~0-9a-z]/.test(character) ? character : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
    })
    .join("");
}
