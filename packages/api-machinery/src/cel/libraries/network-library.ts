import type { Environment } from "@marcbachmann/cel-js";
import { Cidr, IpAddress, parseCidr, parseIp } from "../address.ts";
import { CelError } from "../cel-error.ts";

/** Registers Kubernetes' CEL functions on addresses, networks and URLs. */
export function registerNetworkLibrary(environment: Environment): void {
  registerIp(environment);
  registerCidr(environment);
  registerUrl(environment);
}

function ipOf(text: string): IpAddress {
  const address = parseIp(text);
  if (address === undefined)
    throw new CelError("ParseError", `IP Address ${JSON.stringify(text)} parse error during conversion from string`);
  return address;
}

function cidrOf(text: string): Cidr {
  const network = parseCidr(text);
  if (network === undefined)
    throw new CelError("ParseError", `network address parse error during conversion from string: ${JSON.stringify(text)}`);
  return network;
}

const within = (address: IpAddress, network: string): boolean => cidrOf(network).contains(address);
const isUnspecified = (address: IpAddress): boolean => address.value === 0n;
const isLoopback = (address: IpAddress): boolean => within(address, "127.0.0.0/8") || within(address, "::1/128");
const isMulticast = (address: IpAddress): boolean => within(address, "224.0.0.0/4") || within(address, "ff00::/8");
const isLinkLocal = (address: IpAddress): boolean => within(address, "169.254.0.0/16") || within(address, "fe80::/10");
const isLinkLocalMulticast = (address: IpAddress): boolean =>
  within(address, "224.0.0.0/24") || (address.bits === 128 && ((address.value >> 112n) & 0xff0fn) === 0xff02n);
const isBroadcast = (address: IpAddress): boolean => address.bits === 32 && address.value === 0xffffffffn;

class IpFunctions {}

function registerIp(environment: Environment): void {
  environment
    .registerType("net.IP", IpAddress)
    .registerType("IpFunctions", IpFunctions)
    .registerConstant("ip", "IpFunctions", new IpFunctions())
    .registerFunction("ip(string): net.IP", ipOf)
    .registerFunction("isIP(string): bool", (text: string) => parseIp(text) !== undefined)
    .registerFunction("IpFunctions.isCanonical(string): bool", (_: unknown, text: string) => String(ipOf(text)) === text)
    .registerFunction("string(net.IP): string", String)
    .registerFunction("net.IP.family(): int", ({ bits }: IpAddress) => (bits === 32 ? 4n : 6n))
    .registerFunction("net.IP.isUnspecified(): bool", isUnspecified)
    .registerFunction("net.IP.isLoopback(): bool", isLoopback)
    .registerFunction("net.IP.isLinkLocalMulticast(): bool", isLinkLocalMulticast)
    .registerFunction("net.IP.isLinkLocalUnicast(): bool", isLinkLocal)
    .registerFunction(
      "net.IP.isGlobalUnicast(): bool",
      (address: IpAddress) =>
        ![isUnspecified, isLoopback, isMulticast, isLinkLocal, isBroadcast].some((excludes) => excludes(address)),
    )
    .registerOperator("net.IP == net.IP", (a: IpAddress, b: IpAddress) => a.bits === b.bits && a.value === b.value);
}

function registerCidr(environment: Environment): void {
  environment
    .registerType("net.CIDR", Cidr)
    .registerFunction("cidr(string): net.CIDR", cidrOf)
    .registerFunction("isCIDR(string): bool", (text: string) => parseCidr(text) !== undefined)
    .registerFunction("string(net.CIDR): string", String)
    .registerFunction("net.CIDR.containsIP(net.IP): bool", (network: Cidr, address: IpAddress) => network.contains(address))
    .registerFunction("net.CIDR.containsIP(string): bool", (network: Cidr, text: string) => network.contains(ipOf(text)))
    .registerFunction("net.CIDR.containsCIDR(net.CIDR): bool", containsCidr)
    .registerFunction("net.CIDR.containsCIDR(string): bool", (network: Cidr, text: string) =>
      containsCidr(network, cidrOf(text)),
    )
    .registerFunction("net.CIDR.ip(): net.IP", ({ address }: Cidr) => address)
    .registerFunction("net.CIDR.masked(): net.CIDR", ({ masked, prefixLength }: Cidr) => new Cidr(masked, prefixLength))
    .registerFunction("net.CIDR.prefixLength(): int", ({ prefixLength }: Cidr) => BigInt(prefixLength))
    .registerOperator("net.CIDR == net.CIDR", (a: Cidr, b: Cidr) => String(a) === String(b));
}

function containsCidr(outer: Cidr, inner: Cidr): boolean {
  return inner.prefixLength >= outer.prefixLength && outer.contains(inner.address);
}

/** Go's url.ParseRequestURI: an absolute URI or an absolute path. */
class CelUrl {
  readonly text: string;
  readonly isPath: boolean;
  readonly url: URL;

  constructor(text: string, url: URL) {
    this.text = text;
    this.isPath = text.startsWith("/");
    this.url = url;
  }
}

function parseUrl(text: string): CelUrl | undefined {
  const isPath = text.startsWith("/");
  if (!isPath && !/^[A-Za-z][A-Za-z0-9+.-]*:/.test(text)) return undefined;
  if (/[\s\p{Cc}]/u.test(text)) return undefined;
  const base = isPath ? `path://host${text}` : text;
  return URL.canParse(base) ? new CelUrl(text, new URL(base)) : undefined;
}

function registerUrl(environment: Environment): void {
  environment
    .registerType("kubernetes.URL", CelUrl)
    .registerFunction("isURL(string): bool", (text: string) => parseUrl(text) !== undefined)
    .registerFunction("url(string): kubernetes.URL", (text: string) => {
      const url = parseUrl(text);
      if (url === undefined)
        throw new CelError("ParseError", `URL parse error during conversion from string: ${JSON.stringify(text)}`);
      return url;
    })
    .registerFunction("kubernetes.URL.getScheme(): string", ({ url, isPath }: CelUrl) =>
      isPath ? "" : url.protocol.slice(0, -1),
    )
    .registerFunction("kubernetes.URL.getHost(): string", (url: CelUrl) => (url.isPath ? "" : hostOf(url)))
    .registerFunction("kubernetes.URL.getHostname(): string", (url: CelUrl) =>
      url.isPath ? "" : url.url.hostname.replace(/^\[|\]$/g, ""),
    )
    .registerFunction(
      "kubernetes.URL.getPort(): string",
      (url: CelUrl) => /:(\d+)$/.exec(url.isPath ? "" : hostOf(url))?.[1] ?? "",
    )
    .registerFunction("kubernetes.URL.getEscapedPath(): string", ({ text, url, isPath }: CelUrl) =>
      // JavaScript gives every web URL a path, even if it was written without one.
      url.pathname === "/" && !isPath && !/^[^:]+:\/\/[^/?#]*\//.test(text) ? "" : url.pathname,
    )
    .registerFunction("kubernetes.URL.getQuery(): map<string, list<string>>", ({ url }: CelUrl) => {
      const query = new Map<string, string[]>();
      for (const [key, value] of url.searchParams) query.set(key, [...(query.get(key) ?? []), value]);
      return query;
    })
    .registerOperator("kubernetes.URL == kubernetes.URL", (a: CelUrl, b: CelUrl) => a.text === b.text);
}

/** Returns host and port as written; JavaScript drops a default port. */
function hostOf({ text }: CelUrl): string {
  return /^[^:]+:\/\/(?:[^/?#@]*@)?([^/?#]*)/.exec(text)?.[1] ?? "";
}
