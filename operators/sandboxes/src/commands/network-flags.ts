import type { MessageInitShape } from "@bufbuild/protobuf";
import type { CommandContext } from "@keelson/operator";
import { choiceFlag, invalidFlag, listFlag } from "@keelson/operator/flags";
import type { CreateRequestSchema } from "@keelson/sandbox/protocol";
import { networkModes, networkProblem } from "../network/network-policy.ts";

/** Flags of a sandbox's network access. */
export const networkFlags = {
  network: choiceFlag({
    name: "network",
    value: "ACCESS",
    description: "network access: none, internet (public addresses) or allowList (--allow)",
    choices: networkModes,
    default: "none",
  }),
  allow: listFlag({
    name: "allow",
    value: "DEST",
    description: "allow a host, *.DOMAIN or CIDR, with optional ports, such as pypi.org:443; implies --network allowList",
  }),
};

/** The network access that {@link networkFlags} request. Throws a usage error. */
export function readNetwork(
  flags: CommandContext["flags"],
): Pick<MessageInitShape<typeof CreateRequestSchema>, "network" | "networkAllow"> {
  const allow = networkFlags.allow.read(flags);
  const network = networkFlags.network.read(flags);
  const [first] = allow;
  if (first === undefined) {
    if (network === "allowList") throw invalidFlag(networkFlags.network, network, "requires --allow");
    return { network, networkAllow: [] };
  }
  if (network === "internet") throw invalidFlag(networkFlags.allow, first, "cannot be combined with --network internet");
  return { network: "allowList", networkAllow: allow.map(readRule) };
}

function readRule(text: string): { host?: string; cidr?: string; ports?: number[] } {
  const [destination = "", ports, ...rest] = text.split(":");
  const rule = {
    ...(/^[\d./]+$/.test(destination) ? { cidr: destination } : { host: destination }),
    ...(ports !== undefined && { ports: ports.split(",").map(Number) }),
  };
  if (rest.length > 0 || networkProblem("allowList", [rule]) !== undefined) {
    throw invalidFlag(
      networkFlags.allow,
      text,
      "must be a lower-case DNS name, *.DOMAIN or IPv4 CIDR, with optional :PORT,PORT",
    );
  }
  return rule;
}
