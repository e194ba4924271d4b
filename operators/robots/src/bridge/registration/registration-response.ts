import type { DeepReadonly } from "@keelson/api-machinery";
import type { Robot } from "../../api/robot.ts";
import { credentialAnnotation } from "../../identity/robot-authentication.ts";
import type { ResponseMessage } from "../../protocol/messages.ts";

/** The response to a robot's registration; undefined until the registration is approved or rejected. */
export function responseFor(robot: DeepReadonly<Robot>): ResponseMessage | undefined {
  const { robotId } = robot.spec;
  if (robot.status?.phase === "Online") {
    const isBound = robot.metadata.annotations?.[credentialAnnotation] !== undefined;
    const { labels = {} } = robot.spec;
    return { success: true, message: "Robot registered", robotId, labels, ...(isBound ? { isCredentialBound: true } : {}) };
  }
  const approved = robot.status?.conditions?.find((condition) => condition.type === "Approved");
  if (approved?.status !== "False" || approved.reason === "NotRegistered") return undefined;
  return { success: false, message: approved.message, robotId };
}
