import type { ModelNetwork } from "./lease-model-network.ts";
import type { ModelNode } from "./lease-model-parts.ts";

/** Picks one of several actions by their chances, or none. `random` is between 0 and 1. */
export function chooseOne(
  random: number,
  actions: readonly (readonly [chance: number, act: () => void])[],
): (() => void) | undefined {
  let left = random;
  for (const [chance, act] of actions) {
    left -= chance;
    if (left < 0) return act;
  }
  return undefined;
}

/** Whether a primary can hand its role over to a replica. */
export function canSwitchOver(node: ModelNode, other: ModelNode, network: ModelNetwork): boolean {
  const isHolding = node.lease.tenure?.isPromoted === true && !node.isFrozen && node.program.isUp;
  if (!isHolding || network.isCut(node.name, other.name) || other === node) return false;
  return other.program.follows === node.name && other.program.role === "replica";
}

/** Whether a replica can take over from its primary. */
export function canFailOver(node: ModelNode, old: ModelNode, network: ModelNetwork): boolean {
  if (node.lease.tenure !== undefined || old === node || node.isFrozen || node.downUntil !== undefined) return false;
  return node.program.role === "replica" && node.program.follows === old.name && !network.isCut(node.name, old.name);
}

/** Whether one of the Pods can be elected by them: it has a role, and no less data than the others have and the primary reported. */
export function canElect(nodes: readonly ModelNode[]): boolean {
  return nodes.some(({ program, lease }) => {
    const hasLess = (other: ModelNode): boolean => {
      const held = other.program.role === "other" ? 0 : other.program.offset;
      return program.offset < Math.max(other.lease.reported, held);
    };
    return program.isUp && program.role !== "other" && lease.members.length > 0 && !nodes.some(hasLess);
  });
}
