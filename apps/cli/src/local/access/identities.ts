import type { UserInfo } from "@keelson/apiserver";
import {
  type ClusterUser,
  collectorUser,
  controllersUser,
  machineName,
  nodeUser,
  proxyUser,
} from "@keelson/cluster/api-server";
import { operatorUser } from "./operator-user.ts";

/** The cluster components that have their own identity, by token name. */
export function clusterUsers(): Readonly<Record<"node" | "proxy" | "controllers" | "collector", ClusterUser>> {
  return { node: nodeUser(machineName()), proxy: proxyUser, controllers: controllersUser, collector: collectorUser };
}

/** The user that a token authenticates. */
export function userOfToken(name: string): UserInfo {
  if (name === "admin") return { username: "keelson", groups: ["system:masters", "system:authenticated"] };
  if (name.startsWith("operator:")) return operatorUser({ name: name.slice("operator:".length) });
  const user = Object.entries(clusterUsers()).find(([key]) => key === name)?.[1];
  if (user === undefined) throw new TypeError(`unknown token name ${name}`);
  return { username: user.username, groups: [...user.groups, "system:authenticated"] };
}
