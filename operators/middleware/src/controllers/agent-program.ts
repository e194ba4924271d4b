import type { DeepReadonly } from "@keelson/api-machinery";
import type { Container, PodObject } from "@keelson/api-machinery/kinds";
import { portableNode } from "@keelson/operator/portable-node";

/** Where the agent is in the Pods of Apps and in those that transfer backups. */
export interface AgentProgram {
  /** Command line that both start with, such as `keelson middleware`. */
  readonly command: readonly string[];
  /** Image from which an init container copies the program, so that images of programs need not contain it. */
  readonly image: string;
}

/** Name of the init container and of the volume. */
const name = "keelson-agent";
const folder = "/keelson-agent";

/** File name of the program in a folder that `keelson middleware copy-agent` has written. */
export const agentProgramFile = "agent.mjs";

/**
 * Completes a Pod whose containers start the agent: an init container copies the program with Node.js into a volume, and the containers
 * start it from there. Returns other Pods unchanged. The revision of a Pod does not cover this, so that a new image restarts nothing.
 */
export function withAgentProgram(pod: DeepReadonly<PodObject>, { command, image }: AgentProgram): DeepReadonly<PodObject> {
  const { spec } = pod;
  const startsAgent = (line: readonly string[] = []): boolean =>
    line.length > command.length && command.every((part, index) => line[index] === part);
  if (!spec.containers.some((each) => startsAgent(each.command))) return pod;
  const copy: DeepReadonly<Container> = {
    name,
    image,
    command: ["keelson", "middleware", "copy-agent", folder],
    securityContext: {
      allowPrivilegeEscalation: false,
      capabilities: { drop: ["ALL"] },
      seccompProfile: { type: "RuntimeDefault" },
    },
    volumeMounts: [{ name, mountPath: folder }],
  };
  const mount = { name, mountPath: folder, readOnly: true };
  const start = [...portableNode(folder), `${folder}/${agentProgramFile}`];
  return {
    ...pod,
    spec: {
      ...spec,
      initContainers: [...(spec.initContainers ?? []), copy],
      containers: spec.containers.map((each) =>
        startsAgent(each.command)
          ? {
              ...each,
              command: [...start, ...(each.command ?? []).slice(command.length)],
              volumeMounts: [...(each.volumeMounts ?? []), mount],
            }
          : each,
      ),
      volumes: [...(spec.volumes ?? []), { name, emptyDir: {} }],
    },
  };
}
