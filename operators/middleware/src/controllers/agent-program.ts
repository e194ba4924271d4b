import type { DeepReadonly } from "@keelson/api-machinery";
import type { Container, PodObject, ResourceRequirements } from "@keelson/api-machinery/kinds";
import { addQuantities, formatQuantity, isQuantity } from "@keelson/api-machinery/quantity";
import { portableNode } from "@keelson/operator/portable-node";
import { restrictedContext } from "./restricted-context.ts";

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

/** File name of the program in a directory that `keelson middleware copy-agent` has written. */
export const agentProgramFile = "agent.mjs";

/**
 * Completes a Pod whose containers start the agent: an init container copies the program with Node.js into a volume, and the containers
 * start it from there. Returns other Pods unchanged. The revision of a Pod does not cover this, so that a new image restarts nothing.
 */
export function withAgentProgram(pod: DeepReadonly<PodObject>, { command, image }: AgentProgram): DeepReadonly<PodObject> {
  const { spec } = pod;
  const startsAgent = (line: readonly string[] = []): boolean =>
    line.length > command.length && command.every((part, index) => line[index] === part);
  const agent = spec.containers.find((each) => startsAgent(each.command));
  if (agent === undefined) return pod;
  const resources = agent.resources && withRoom(agent.resources);
  const copy: DeepReadonly<Container> = {
    name,
    image,
    // Its own requests and limits would change the quality of service of the Pod, or be missing where a quota requires them.
    ...(resources !== undefined && { resources }),
    command: ["keelson", "middleware", "copy-agent", folder],
    securityContext: restrictedContext,
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
              ...(each.resources !== undefined && { resources: withRoom(each.resources) }),
              command: [...start, ...(each.command ?? []).slice(command.length)],
              volumeMounts: [...(each.volumeMounts ?? []), mount],
            }
          : each,
      ),
      volumes: [...(spec.volumes ?? []), { name, emptyDir: {} }],
    },
  };
}

/** Room for the program and the volume that holds it. */
const programSize = "128Mi";

/** Resources of the container that starts the agent, with room for the program in amounts of `ephemeral-storage`, which include the volume. */
function withRoom({ requests, limits }: DeepReadonly<ResourceRequirements>): DeepReadonly<ResourceRequirements> {
  const raised = (amounts: DeepReadonly<NonNullable<ResourceRequirements["limits"]>>) => {
    const { "ephemeral-storage": storage } = amounts;
    // The API server rejects what is not a quantity.
    if (!isQuantity(storage)) return amounts;
    return { ...amounts, "ephemeral-storage": formatQuantity(addQuantities(storage, programSize)) };
  };
  return { ...(requests && { requests: raised(requests) }), ...(limits && { limits: raised(limits) }) };
}
