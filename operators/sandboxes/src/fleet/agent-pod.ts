import { randomBytes } from "node:crypto";
import { controllerReference, type DeepReadonly, getController } from "@keelson/api-machinery";
import type { Container, EnvVar, PodObject, PodSpec, SecretObject } from "@keelson/api-machinery/kinds";
import { agentApp, agentLabels, agentPort, defaultSandboxesPerAgent, group } from "../api/names.ts";
import type { SandboxPool } from "../api/sandbox-pool.ts";
import { defaultAgentDir } from "../agent/agent-settings.ts";
import type { AgentIsolation } from "../agent/run-agent.ts";

/** Where the agents of an operator come from, and what they are given. */
export interface AgentPlacement extends AgentIsolation {
  /**
   * `local`: Pods are programs of the operator's own machine: these words start an agent, which keeps its sandboxes in a folder
   * of its own below `dir`. `image`: Pods are containers of this image.
   */
  readonly tools:
    | { readonly kind: "local"; readonly command: readonly string[]; readonly dir: string; readonly imageDir: string }
    | { readonly kind: "image"; readonly image: string };
}

const containerName = "agent";
const tokenKey = "token";

/** Name of the Secret with the token of a pool's agents. */
export const tokenSecretName = (pool: string): string => `${pool}-agent-token`;

/** The Secret that lets the operator, and nobody else, talk to the agents of a pool. Made once; goes with the pool. */
export function tokenSecret(pool: DeepReadonly<SandboxPool>): Omit<SecretObject, "apiVersion" | "kind"> {
  return {
    metadata: {
      name: tokenSecretName(pool.metadata.name ?? ""),
      ...(pool.metadata.namespace !== undefined && { namespace: pool.metadata.namespace }),
      ownerReferences: [controllerReference(pool)],
    },
    type: "Opaque",
    data: { [tokenKey]: Buffer.from(randomBytes(32).toString("hex")).toString("base64") },
  };
}

/** The token in a {@link tokenSecret}. Throws where there is none. */
export function tokenOf(secret: DeepReadonly<SecretObject>): string {
  const token = Buffer.from(secret.data?.[tokenKey] ?? "", "base64")
    .toString("utf8")
    .trim();
  if (token === "") throw new Error(`Secret ${secret.metadata.name ?? ""} has no ${tokenKey}`);
  return token;
}

/** The Pod of an agent: the pool's template, in which the container `agent` (or else the first one) runs the agent. */
export function agentPod(
  pool: DeepReadonly<SandboxPool>,
  name: string,
  placement: AgentPlacement,
): Omit<PodObject, "apiVersion" | "kind"> {
  const { tools } = placement;
  const { name: poolName = "", namespace } = pool.metadata;
  const template = structuredClone(pool.spec.agentTemplate ?? { spec: { containers: [] } }) as {
    metadata?: { labels?: Record<string, string>; annotations?: Record<string, string> };
    spec?: Partial<PodSpec>;
  };
  const templateSpec = template.spec ?? {};
  const containers = templateSpec.containers ?? [];
  const present = containers.find((container) => container.name === containerName) ?? containers[0];
  const container = agentContainer(present, pool, placement);
  const { initContainers, volumes = [], ...rest } = templateSpec;
  return {
    metadata: {
      name,
      ...(namespace !== undefined && { namespace }),
      labels: { ...template.metadata?.labels, [agentLabels.app]: agentApp, [agentLabels.pool]: poolName },
      ...(template.metadata?.annotations && { annotations: template.metadata.annotations }),
      ownerReferences: [controllerReference(pool)],
    },
    spec: {
      // An agent has no business with the API.
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      ...rest,
      restartPolicy: "Always",
      // Where Pods are programs, images of the template are not there: nothing but the agent can run.
      ...(tools.kind === "local"
        ? { containers: [container] }
        : {
            ...(initContainers && { initContainers }),
            volumes: [...volumes, { name: "sandboxes", emptyDir: {} }],
            containers: [container, ...containers.filter((each) => each !== present)],
          }),
    },
  };
}

function agentContainer(
  present: Container | undefined,
  pool: DeepReadonly<SandboxPool>,
  { tools, driver, containerdSocket }: AgentPlacement,
): Container {
  const field = (name: string, fieldPath: string): EnvVar => ({ name, valueFrom: { fieldRef: { fieldPath } } });
  const isLocal = tools.kind === "local";
  const limits = pool.spec.resources?.limits ?? {};
  const env: EnvVar[] = [
    field("POD_NAME", "metadata.name"),
    field("POD_UID", "metadata.uid"),
    field("POD_IP", "status.podIP"),
    field("NAMESPACE", "metadata.namespace"),
    field("NODE_NAME", "spec.nodeName"),
    { name: "AGENT_PORT", value: String(agentPort) },
    { name: "AGENT_CAPACITY", value: String(pool.spec.maxSandboxesPerPod ?? defaultSandboxesPerAgent) },
    { name: "AGENT_DRIVER", value: driver },
    ...(containerdSocket === undefined ? [] : [{ name: "CONTAINERD_SOCKET", value: containerdSocket }]),
    { name: "AGENT_DIR", value: isLocal ? `${tools.dir}/$(POD_UID)` : defaultAgentDir },
    ...Object.entries({ AGENT_SANDBOX_CPU: limits.cpu, AGENT_SANDBOX_MEMORY: limits.memory }).flatMap(([name, amount]) =>
      amount === undefined ? [] : [{ name, value: String(amount) }],
    ),
    ...(isLocal ? [{ name: "AGENT_IMAGE_DIR", value: tools.imageDir }] : []),
    {
      name: "AGENT_TOKEN",
      valueFrom: { secretKeyRef: { name: tokenSecretName(pool.metadata.name ?? ""), key: tokenKey } },
    },
  ];
  const ours = new Set(env.map((variable) => variable.name));
  const { command, args, volumeMounts = [], ...rest } = present ?? { name: containerName };
  const run = isLocal
    ? { image: rest.image ?? "keelson/sandbox-agent", command: [...tools.command] }
    : {
        image: rest.image ?? tools.image,
        command: command ?? ["keelson", "sandbox", "agent"],
        ...(args && { args }),
        volumeMounts: [...volumeMounts, { name: "sandboxes", mountPath: defaultAgentDir }],
      };
  return {
    ...rest,
    ...run,
    env: [...env, ...(rest.env ?? []).filter((variable) => !ours.has(variable.name))],
    ports: [{ name: "agent", containerPort: agentPort }],
  };
}

/** An agent as its Pod shows it. */
export interface AgentPod {
  readonly namespace: string;
  readonly pool: string;
  readonly name: string;
  /** One made anew under the same name is another. */
  readonly uid: string;
  readonly node: string;
  /** Address that its sandboxes listen on. */
  readonly address: string;
  /** Where its API is; absent before the Pod has an address. */
  readonly url?: string;
  /** It is going: nothing is to be placed there. */
  readonly isEnding: boolean;
  /** Its containers have ended for good. */
  readonly isDead: boolean;
}

/** The agent of a Pod, or undefined where a Pod is none of a pool. */
export function agentOfPod(pod: DeepReadonly<PodObject>): AgentPod | undefined {
  const { metadata, spec, status } = pod;
  const owner = getController(pod);
  if (metadata.labels?.[agentLabels.app] !== agentApp || owner?.kind !== "SandboxPool") return undefined;
  if (owner.apiVersion.split("/")[0] !== group) return undefined;
  const { podIP = "", phase } = status ?? {};
  const host = podIP.includes(":") ? `[${podIP}]` : podIP;
  return {
    namespace: metadata.namespace ?? "",
    pool: owner.name,
    name: metadata.name ?? "",
    uid: metadata.uid ?? "",
    node: spec.nodeName ?? "",
    address: podIP,
    ...(podIP !== "" && { url: `http://${host}:${agentPort}` }),
    isEnding: metadata.deletionTimestamp !== undefined,
    isDead: phase === "Failed" || phase === "Succeeded",
  };
}

/** The agents among Pods. */
export const agentsOfPods = (pods: readonly DeepReadonly<PodObject>[]): readonly AgentPod[] =>
  pods.map(agentOfPod).filter((agent) => agent !== undefined);
