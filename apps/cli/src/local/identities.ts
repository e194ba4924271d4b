import type { UserInfo } from "@keelson/apiserver";
import { type ClusterUser, collectorUser, controllersUser, machineName, nodeUser, proxyUser } from "@keelson/cluster";
import { operatorUser } from "./operator-access.ts";

/** The cluster components that have an identity of their own, by token name. */
export function clusterUsers(): Readonly<Record<"node" | "proxy" | "controllers" | "collector", ClusterUser>> {
  return { node: nodeUser(machineName()), proxy: proxyUser, controllers: controllersUser, collector: collectorUser };
}

/** Names of the tokens that the components need; operators are prefixed so that they cannot collide. */
export function tokenNames(operators: readonly string[]): readonly string[] {
  return ["admin", "node", "proxy", "controllers", "collector", ...operators.map(operatorTokenName)];
}

/** The name of an operator's token. */
export const operatorTokenName = (operator: string): string => `operator:${operator}`;

/** The user that a token authenticates. */
export function userOfToken(name: string): UserInfo {
  if (name === "admin") return { username: "keelson", groups: ["system:masters", "system:authenticated"] };
  if (name.startsWith("operator:")) return operatorUser({ name: name.slice("operator:".length) });
  const user = Object.entries(clusterUsers()).find(([key]) => key === name)?.[1];
  if (user === undefined) throw new TypeError(`unknown token name ${name}`);
  return { username: user.username, groups: [...user.groups, "system:authenticated"] };
}
