import { controllerReference, type DeepReadonly, getController } from "@keelson/api-machinery";
import type { Container, EnvVar, PodObject, PodSpec, SecretObject } from "@keelson/api-machinery/kinds";
import { findRunsc } from "@keelson/execution";
import { AgentError } from "../protocol/agent-error.ts";
import { agentApp, agentLabels, agentPort, defaultSandboxesPerAgent, group } from "../api/names.ts";
import type { SandboxPool } from "../api/sandbox-pool.ts";
import { defaultAgentDir } from "../agent/agent-settings.ts";
import type { AgentIsolation } from "../agent/run-agent.ts";

/** How an operator runs its agents. */
export interface AgentPlacement extends AgentIsolation {
  /**
   * `local`: agents run on the operator's own machine with this command, each in its own directory below `dir`. `image`: agents are
   * containers of this image.
   */
  readonly tools:
    | {
        readonly kind: "local";
        readonly command: readonly string[];
        readonly dir: string;
        readonly imageDir: string;
        readonly volumeDir: string;
      }
    | { readonly kind: "image"; readonly image: string };
}

const containerName = "agent";
const tokenKey = "token";

/** Name of the Secret with an agent's key. `suffix` is random: each agent Pod has its own key, even under a reused name. */
export const agentSecretName = (agent: string, suffix: string): string => `${agent}-${suffix}`;

/** The Secret with the key that one agent shares with the operator. Owned by the pool; deleted with the agent. */
export function agentSecret(
  pool: DeepReadonly<SandboxPool>,
  name: string,
  randomBytes: (count: number) => Buffer,
): Omit<SecretObject, "apiVersion" | "kind"> {
  return {
    metadata: {
      name,
      ...(pool.metadata.namespace !== undefined && { namespace: pool.metadata.namespace }),
      ownerReferences: [controllerReference(pool)],
    },
    type: "Opaque",
    data: { [tokenKey]: Buffer.from(randomBytes(32).toString("hex")).toString("base64") },
  };
}

/** The key in an {@link agentSecret}. Throws an {@link AgentError} if it has none. */
export function readToken(secret: DeepReadonly<SecretObject>): string {
  const token = Buffer.from(secret.data?.[tokenKey] ?? "", "base64")
    .toString("utf8")
    .trim();
  if (token === "") throw new AgentError("Unreachable", `Secret ${secret.metadata.name ?? ""} has no ${tokenKey}`);
  return token;
}

/**
 * Why agents of a pool cannot run; undefined if they can, or if only their own machines know. `findProgram` returns the path of runsc on this
 * machine.
 */
export function runtimeProblem(
  { spec }: DeepReadonly<SandboxPool>,
  { tools }: Pick<AgentPlacement, "tools">,
  findProgram: () => string | undefined = findRunsc,
): string | undefined {
  if (spec.runtimeType !== "gvisor" || tools.kind === "image" || findProgram() !== undefined) return undefined;
  return "runtimeType: gvisor requires runsc, which is not installed on this machine; install gVisor, or use container";
}

/** The Pod of an agent: the pool's template, whose container `agent` (or else the first one) runs the agent. */
export function agentPod(
  pool: DeepReadonly<SandboxPool>,
  name: string,
  secret: string,
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
  const container = agentContainer(present, pool, secret, placement);
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
      // Agents do not use the API.
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      ...rest,
      restartPolicy: "Always",
      // On the operator's machine the template's images do not exist: only the agent can run.
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
  secret: string,
  { tools, driver, containerdSocket }: AgentPlacement,
): Container {
  const field = (name: string, fieldPath: string): EnvVar => ({ name, valueFrom: { fieldRef: { fieldPath } } });
  const isLocal = tools.kind === "local";
  const limits = pool.spec.resources?.limits ?? {};
  const warm = pool.spec.warm ?? {};
  const env: EnvVar[] = [
    field("POD_NAME", "metadata.name"),
    field("POD_UID", "metadata.uid"),
    field("POD_IP", "status.podIP"),
    field("NAMESPACE", "metadata.namespace"),
    field("NODE_NAME", "spec.nodeName"),
    { name: "AGENT_PORT", value: String(agentPort) },
    { name: "AGENT_CAPACITY", value: String(pool.spec.maxSandboxesPerPod ?? defaultSandboxesPerAgent) },
    { name: "AGENT_DRIVER", value: pool.spec.runtimeType === "gvisor" ? "gvisor" : driver },
    ...(containerdSocket === undefined ? [] : [{ name: "CONTAINERD_SOCKET", value: containerdSocket }]),
    { name: "AGENT_DIR", value: isLocal ? `${tools.dir}/$(POD_UID)` : defaultAgentDir },
    ...Object.entries({
      AGENT_SANDBOX_CPU: limits.cpu,
      AGENT_SANDBOX_MEMORY: limits.memory,
      AGENT_WARM_SHELLS: warm.shells || undefined,
      AGENT_WARM_PER_IMAGE: warm.perImage || undefined,
    }).flatMap(([name, amount]) => (amount === undefined ? [] : [{ name, value: String(amount) }])),
    ...(isLocal
      ? [
          { name: "AGENT_IMAGE_DIR", value: tools.imageDir },
          { name: "AGENT_VOLUME_DIR", value: tools.volumeDir },
        ]
      : []),
    {
      name: "AGENT_TOKEN",
      valueFrom: { secretKeyRef: { name: secret, key: tokenKey } },
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
  /** Distinguishes it from a later Pod of the same name. */
  readonly uid: string;
  readonly node: string;
  /** Address at which its sandboxes' ports are reachable. */
  readonly address: string;
  /** URL of its API; absent before the Pod has an address. */
  readonly url?: string;
  /** Maximum number of its sandboxes, which it was started with. */
  readonly capacity: number;
  /** Name of the Secret with its key; absent if its Pod does not refer to one. */
  readonly secret?: string;
  /** The Pod is being deleted: no sandbox may be assigned to it. */
  readonly isEnding: boolean;
  /** Its containers have terminated permanently. */
  readonly isDead: boolean;
}

/** The agent of a Pod, or undefined if the Pod is not owned by a pool. */
export function parseAgentPod(pod: DeepReadonly<PodObject>): AgentPod | undefined {
  const { metadata, spec, status } = pod;
  const owner = getController(pod);
  if (metadata.labels?.[agentLabels.app] !== agentApp || owner?.kind !== "SandboxPool") return undefined;
  if (owner.apiVersion.split("/")[0] !== group) return undefined;
  const { podIP = "", phase } = status ?? {};
  const host = podIP.includes(":") ? `[${podIP}]` : podIP;
  const variables = spec.containers.flatMap(({ env = [] }) => env);
  const capacity = Number(variables.find(({ name }) => name === "AGENT_CAPACITY")?.value);
  const secret = variables.find(({ name }) => name === "AGENT_TOKEN")?.valueFrom?.secretKeyRef?.name;
  return {
    namespace: metadata.namespace ?? "",
    pool: owner.name,
    name: metadata.name ?? "",
    uid: metadata.uid ?? "",
    node: spec.nodeName ?? "",
    address: podIP,
    capacity: Number.isSafeInteger(capacity) ? capacity : defaultSandboxesPerAgent,
    ...(podIP !== "" && { url: `https://${host}:${agentPort}` }),
    ...(secret !== undefined && { secret }),
    isEnding: metadata.deletionTimestamp !== undefined,
    isDead: phase === "Failed" || phase === "Succeeded",
  };
}

/** The agents among Pods. */
export const listAgents = (pods: readonly DeepReadonly<PodObject>[]): readonly AgentPod[] =>
  pods.map(parseAgentPod).filter((agent) => agent !== undefined);
