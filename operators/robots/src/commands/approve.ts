import type { DeepReadonly } from "@keelson/api-machinery";
import { changeEach, type CommandDefinition } from "@keelson/operator";
import { heldAnnotation } from "../api/names.ts";
import { Robot } from "../api/robot.ts";
import { boundDigest, isApprovedWithoutHold, isRevoked } from "../identity/robot-identity.ts";
import { retryOnConflict } from "../identity/retry-on-conflict.ts";
import { namespaceFlag } from "./flags.ts";

/** `keelson robots approve ROBOT ...`. */
export const approveCommand = releaseCommand({
  name: "approve",
  description: "approve waiting robots, and release robots that are held because two agents used the same key",
  done: "approved",
  specOf(robot) {
    const digest = boundDigest(robot);
    // An approval is for one key: this one would apply to the next.
    if (digest !== undefined && isRevoked(robot, digest))
      return "has a revoked key; approve it after it has joined with a new join token";
    return isApprovedWithoutHold(robot) ? {} : { approved: true };
  },
});

/** `keelson robots revoke ROBOT ...`. */
export const revokeCommand = releaseCommand({
  name: "revoke",
  description: "revoke the keys of robots, close their connections, and require a new join token",
  done: "revoked",
  specOf(robot) {
    const digest = boundDigest(robot);
    if (digest === undefined) return "has no key; to reject it, set spec.approved to false";
    const revokedKeys = [...new Set([...(robot.spec.revokedKeys ?? []), digest])];
    // The approval was for the agent with this key. A robot that was rejected stays rejected.
    return { revokedKeys, ...(robot.spec.approved === true ? { approved: null } : {}) };
  },
});

interface ReleaseCommand extends Pick<CommandDefinition, "name" | "description"> {
  /** What was done, for messages. */
  readonly done: string;
  /** The changed fields of the spec, or why the robot cannot be changed. */
  readonly specOf: (robot: DeepReadonly<Robot>) => Readonly<Record<string, unknown>> | string;
}

/** A command that changes the spec of robots and ends their hold. */
function releaseCommand({ name, description, done, specOf }: ReleaseCommand): CommandDefinition {
  return {
    ...{ name, description, args: ["ROBOT", "[ROBOTS...]"], flags: [namespaceFlag] },
    run(context) {
      const namespace = namespaceFlag.read(context.flags);
      const { signal } = context;
      return changeEach(context, {
        ...{ kind: "robot", namespace, done, hint: `list robots: keelson robots list -n ${namespace}` },
        change: (client, key) =>
          retryOnConflict(async () => {
            const robot = await client.get(Robot, key, { signal });
            const spec = specOf(robot);
            if (typeof spec === "string") return spec;
            const { resourceVersion } = robot.metadata;
            const body = { metadata: { resourceVersion, annotations: { [heldAnnotation]: null } }, spec };
            return await client.patch(Robot, key, { type: "merge", body }, { signal });
          }),
      });
    },
  };
}
