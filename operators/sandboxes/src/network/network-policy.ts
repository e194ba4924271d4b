import { isJsonObject } from "@keelson/api-machinery";
import { isIPv4 } from "node:net";

/** Values of a sandbox's `network`. */
export const networkModes = ["none", "internet", "allowList"] as const;

/** One of {@link networkModes}. */
export type NetworkMode = (typeof networkModes)[number];

/** Destinations that an allow-list permits: a host name, or the addresses of a CIDR. */
export interface NetworkRule {
  /** A DNS name, or `*.` and a domain for all names below it. */
  readonly host?: string;
  /** IPv4 addresses, such as `10.0.0.0/8`, or a single address. */
  readonly cidr?: string;
  /** Default: all ports. */
  readonly ports?: readonly number[];
}

/** The network access of a sandbox. */
export interface NetworkPolicy {
  readonly mode: NetworkMode;
  /** Rules of `allowList`. */
  readonly allow: readonly NetworkRule[];
}

/** Valid hosts of a rule. */
export const hostPattern = "^(\\*\\.)?([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\\.)*[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$";

/** Valid CIDRs of a rule; each octet and the prefix length are checked by {@link networkProblem}. */
export const cidrPattern = "^[0-9]{1,3}(\\.[0-9]{1,3}){3}(/[0-9]{1,2})?$";

/** Maximum number of rules. */
export const maxNetworkRules = 256;

/** Maximum number of ports of a rule. */
export const maxRulePorts = 64;

const hostExpression = new RegExp(hostPattern);

const isPort = (value: unknown): boolean => Number.isInteger(value) && Number(value) >= 1 && Number(value) <= 65_535;

function isCidr(value: string): boolean {
  const [address = "", length, ...rest] = value.split("/");
  const isLength = length === undefined || (/^\d{1,2}$/.test(length) && Number(length) <= 32);
  return rest.length === 0 && isIPv4(address) && isLength;
}

/** What is wrong with a sandbox's network access, starting with the field's name; undefined if it is valid. */
export function networkProblem(network: unknown, allow: unknown): string | undefined {
  const mode = networkModes.find((each) => each === network);
  if (network !== undefined && mode === undefined) return `network: must be ${networkModes.join(", ")}`;
  if (mode === "allowList" && (allow === undefined || (Array.isArray(allow) && allow.length === 0)))
    return "networkAllow: network allowList requires at least one rule; use network: none for no access";
  if (allow === undefined) return undefined;
  if (!Array.isArray(allow) || allow.length > maxNetworkRules)
    return `networkAllow: must be a list of at most ${maxNetworkRules} rules`;
  if (allow.length > 0 && mode !== "allowList") return "networkAllow: requires network: allowList";
  for (const [index, rule] of allow.entries()) {
    const problem = ruleProblem(rule);
    if (problem !== undefined) return `networkAllow[${index}]${problem}`;
  }
  return undefined;
}

function ruleProblem(rule: unknown): string | undefined {
  if (!isJsonObject(rule)) return ": must be an object";
  const { host, cidr, ports } = rule;
  if ((host === undefined) === (cidr === undefined)) return ": must have either host or cidr";
  if (host !== undefined && !(typeof host === "string" && host.length <= 253 && hostExpression.test(host)))
    return `.host: ${JSON.stringify(host)} must be a lower-case DNS name, or *. and a domain`;
  if (cidr !== undefined && !(typeof cidr === "string" && isCidr(cidr)))
    return `.cidr: ${JSON.stringify(cidr)} must be IPv4 addresses, such as 10.0.0.0/8`;
  if (ports !== undefined && !(Array.isArray(ports) && ports.length <= maxRulePorts && ports.every(isPort)))
    return `.ports: must be at most ${maxRulePorts} ports, 1 to 65535`;
  return undefined;
}

/** The rules of an allow-list that a DNS name matches. */
export function rulesFor(name: string, allow: readonly NetworkRule[]): readonly NetworkRule[] {
  return allow.filter(({ host }) => host === name || (host?.startsWith("*.") === true && name.endsWith(host.slice(1))));
}
