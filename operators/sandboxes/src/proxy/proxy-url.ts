import type { SignedPort } from "./url-signer.ts";

/** Name of the query parameter with a signature. */
const signatureParameter = "keelson-signature";

/** Ports and ids fit into one DNS label. */
const labelPattern = /^([1-9]\d{0,4})-([0-9a-z](?:[0-9a-z-]{0,55}[0-9a-z])?)$/;

/** The URL of a port, below the public base URL of the proxy. */
export function portUrl(base: URL, { sandboxId, port }: SignedPort, signature?: string): string {
  const url = new URL(base);
  url.hostname = `${port}-${sandboxId}.${base.hostname}`;
  url.pathname = "/";
  if (signature !== undefined) url.searchParams.set(signatureParameter, signature);
  return url.href;
}

/** The port that a `Host` header names: `PORT-ID.` and the domain. Undefined for any other host. */
export function portOfHost(host: string | undefined, domain: string): SignedPort | undefined {
  const name = (host ?? "").toLowerCase().replace(/:\d*$/, "").replace(/\.$/, "");
  const suffix = `.${domain.toLowerCase()}`;
  if (!name.endsWith(suffix)) return undefined;
  const [, digits, sandboxId = ""] = labelPattern.exec(name.slice(0, -suffix.length)) ?? [];
  const port = Number(digits);
  return port >= 1 && port <= 65_535 ? { sandboxId, port } : undefined;
}

/** A request's path and query without the parameter, and the parameter's value. Other parameters keep their spelling. */
export function takeSignature(target: string): { readonly target: string; readonly signature: string | undefined } {
  const start = target.indexOf("?");
  if (start < 0) return { target, signature: undefined };
  const isSignature = (part: string): boolean => part.startsWith(`${signatureParameter}=`);
  const parts = target.slice(start + 1).split("&");
  const rest = parts.filter((part) => !isSignature(part)).join("&");
  const signature = parts.find(isSignature)?.slice(signatureParameter.length + 1);
  if (signature === undefined) return { target, signature };
  return { target: `${target.slice(0, start)}${rest === "" ? "" : `?${rest}`}`, signature };
}
