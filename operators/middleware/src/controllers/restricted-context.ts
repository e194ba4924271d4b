import type { Container } from "@keelson/api-machinery/kinds";

/** The security context of containers that run the agent's own code: what the Pod Security level `restricted` requires, except for the user. */
export const restrictedContext: NonNullable<Container["securityContext"]> = {
  allowPrivilegeEscalation: false,
  capabilities: { drop: ["ALL"] },
  seccompProfile: { type: "RuntimeDefault" },
};
