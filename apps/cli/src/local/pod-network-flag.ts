import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import type { PodNetworkKind } from "@keelson/cluster/address-block";
import { choiceFlag, type FlagValues, UsageError } from "@keelson/operator/flags";
import { podRuntimeFlag } from "./pod-runtime-flag.ts";

/** The flag for the network of Pods. */
export const podNetworkFlag = choiceFlag({
  name: "pod-network",
  value: "KIND",
  choices: ["loopback", "namespaces"],
  description:
    "network of Pods: loopback (an address each on the machine's network) or namespaces (a network namespace each; " +
    "requires root, ip, nft and --pod-runtime bubblewrap); fixed once the data directory exists",
  default: "loopback",
});

/** The programs that namespaces need. */
const programs = ["ip", "nft"];

/** Reads {@link podNetworkFlag}. Throws a {@link UsageError} if this machine lacks what namespaces need. */
export function readPodNetwork(flags: FlagValues): PodNetworkKind {
  const kind = podNetworkFlag.read(flags);
  if (kind === "loopback") return kind;
  const refuse = (reason: string): never => {
    throw new UsageError(`--pod-network: namespaces requires ${reason}, or use loopback`);
  };
  if (process.getuid?.() !== 0) refuse("root: run keelson up as root");
  if (podRuntimeFlag.read(flags) !== "bubblewrap") refuse("--pod-runtime bubblewrap: set it");
  const folders = (process.env["PATH"] ?? "").split(delimiter);
  const missing = programs.filter((name) => !folders.some((folder) => existsSync(join(folder, name))));
  if (missing.length > 0) refuse(`${missing.join(" and ")}: install iproute2 and nftables`);
  return kind;
}
