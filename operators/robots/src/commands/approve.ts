import { changeEach, type CommandDefinition } from "@keelson/operator";
import { heldAnnotation } from "../api/names.ts";
import { Robot } from "../api/robot.ts";
import { boundDigest, isApprovedWithoutHold, isRevoked } from "../identity/robot-identity.ts";
import { retryOnConflict } from "../identity/token-store.ts";
import { namespaceFlag } from "./flags.ts";

/** `keelson robots approve ROBOT ...`. */
export const approveCommand: CommandDefinition = {
  name: "approve",
  description: "approve robots that wait for it, and release robots that are held because two agents used their key",
  args: ["ROBOT", "[ROBOTS...]"],
  flags: [namespaceFlag],
  run(context) {
    const namespace = namespaceFlag.read(context.flags);
    const { signal } = context;
    return changeEach(context, {
      ...{ kind: "robot", namespace, done: "approved", hint: `list robots: keelson robots list -n ${namespace}` },
      change: (client, key) =>
        retryOnConflict(async () => {
          const robot = await client.get(Robot, key, { signal });
          const bound = boundDigest(robot);
          // An approval is for one key: this one would apply to the next.
          if (bound !== undefined && isRevoked(robot, bound))
            return "has a revoked key; approve it after it has joined with a new join token";
          const { resourceVersion } = robot.metadata;
          const metadata = { resourceVersion, annotations: { [heldAnnotation]: null } };
          const body = { metadata, ...(isApprovedWithoutHold(robot) ? {} : { spec: { approved: true } }) };
          return await client.patch(Robot, key, { type: "merge", body }, { signal });
        }),
    });
  },
};

/** `keelson robots revoke ROBOT ...`. */
export const revokeCommand: CommandDefinition = {
  name: "revoke",
  description: "revoke the keys of robots, close their connections, and require a new join token",
  args: ["ROBOT", "[ROBOTS...]"],
  flags: [namespaceFlag],
  run(context) {
    const namespace = namespaceFlag.read(context.flags);
    const { signal } = context;
    return changeEach(context, {
      ...{ kind: "robot", namespace, done: "revoked", hint: `list robots: keelson robots list -n ${namespace}` },
      change: (client, key) =>
        retryOnConflict(async () => {
          const robot = await client.get(Robot, key, { signal });
          const digest = boundDigest(robot);
          if (digest === undefined) return "has no key; to reject it, set spec.approved to false";
          const revokedKeys = [...new Set([...(robot.spec.revokedKeys ?? []), digest])];
          const { resourceVersion } = robot.metadata;
          // The approval was for the agent with this key. A robot that was rejected stays rejected.
          const spec = { revokedKeys, ...(robot.spec.approved === true ? { approved: null } : {}) };
          const body = { metadata: { resourceVersion, annotations: { [heldAnnotation]: null } }, spec };
          return await client.patch(Robot, key, { type: "merge", body }, { signal });
        }),
    });
  },
};
