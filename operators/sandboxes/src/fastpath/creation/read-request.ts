import { Code, ConnectError } from "@connectrpc/connect";
import { dns1123SubdomainFaults } from "@keelson/api-machinery/validation";
import { formatTime } from "@keelson/api-machinery/time";
import { argumentSizeProblem } from "@keelson/execution";
import { type CreateRequest, FailurePolicy, type UpdateRequest, WhenFull } from "@keelson/sandbox/protocol";
import { isPositiveQuantity, isPort } from "../../protocol/protocol.ts";
import { reservedPorts } from "../../api/names.ts";
import { volumesProblem } from "../../volumes/volume-mount.ts";
import type { Sandbox } from "../../api/sandbox.ts";
import { networkModes, networkProblem } from "../../network/network-policy.ts";

const requestIdPattern = /^[\x21-\x7e]{1,128}$/;

const invalid = (message: string): ConnectError => new ConnectError(message, Code.InvalidArgument);

/** The request's id, if any. **Errors**: InvalidArgument if it is not a valid annotation value. */
export function parseRequestId({ requestId }: CreateRequest): string | undefined {
  if (requestId === "") return undefined;
  if (!requestIdPattern.test(requestId)) throw invalid(`request_id: must match ${requestIdPattern.source}`);
  return requestId;
}

/** The spec of the requested Sandbox. **Errors**: InvalidArgument with the field's name. */
export function specOf(request: CreateRequest, key: { namespace: string; name: string }): Sandbox["spec"] {
  const [problem] = dns1123SubdomainFaults(key.name);
  if (problem !== undefined) throw invalid(`name: ${problem}`);
  if (request.image === "") throw invalid("image: is required");
  if (request.poolRef === "") throw invalid("pool_ref: is required");
  const ports = new Set<number>();
  for (const port of request.exposedPorts) {
    if (!isPort(port)) throw invalid(`exposed_ports: ${String(port)} must be 1 to 65535`);
    if (reservedPorts.includes(port)) throw invalid(`exposed_ports: ${port} is reserved for agents and the fast path`);
    if (ports.has(port)) throw invalid(`exposed_ports: ${port} is listed twice`);
    ports.add(port);
  }
  if (request.workingDir !== "" && !request.workingDir.startsWith("/")) throw invalid("working_dir: must be an absolute path");
  for (const name of Object.keys(request.envs)) {
    if (name === "" || name.includes("=")) throw invalid(`envs: ${JSON.stringify(name)} is not a valid variable name`);
  }
  const sizeProblem = argumentSizeProblem([...request.command, ...request.args], request.envs);
  if (sizeProblem !== undefined) throw invalid(sizeProblem);
  const limits = Object.entries({ cpu: request.cpu, memory: request.memory }).filter(([, amount]) => amount !== "");
  for (const [name, amount] of limits) {
    if (!isPositiveQuantity(amount))
      throw invalid(`${name}: ${JSON.stringify(amount)} must be a positive quantity, such as 500m or 256Mi`);
  }
  const seconds = Number(request.expireTimeSeconds);
  if (seconds < 0) throw invalid("expire_time_seconds: must be Unix seconds, or 0 for never");
  const network = networkOf(request);
  const volumes = volumesOf(request);
  return {
    image: request.image,
    poolRef: request.poolRef,
    ...(request.command.length > 0 && { command: [...request.command] }),
    ...(request.args.length > 0 && { args: [...request.args] }),
    ...(Object.keys(request.envs).length > 0 && {
      envs: Object.entries(request.envs).map(([name, value]) => ({ name, value })),
    }),
    ...(request.workingDir !== "" && { workingDir: request.workingDir }),
    ...(limits.length > 0 && { resources: { limits: Object.fromEntries(limits) } }),
    ...(ports.size > 0 && { exposedPorts: [...ports] }),
    ...(seconds > 0 && { expireTime: timeOf(seconds) }),
    ...network,
    ...(volumes.length > 0 && { volumes }),
    ...whenFullOf(request),
    failurePolicy: request.failurePolicy === FailurePolicy.AUTO_RECREATE ? "AutoRecreate" : "Manual",
    recoveryTimeoutSeconds: 60,
  };
}

function whenFullOf({ whenFull }: CreateRequest): Pick<Sandbox["spec"], "whenFull"> {
  switch (whenFull) {
    case WhenFull.WAIT:
      return {};
    case WhenFull.REJECT:
      return { whenFull: "Reject" };
    case WhenFull.BURST:
      return { whenFull: "Burst" };
    default:
      throw invalid(`when_full: ${String(whenFull)} must be WAIT, REJECT or BURST`);
  }
}

/** The network access of the requested Sandbox; empty for none. */
function networkOf({ network, networkAllow }: CreateRequest): Pick<Sandbox["spec"], "network" | "networkAllow"> {
  const allow = networkAllow.map(({ host, cidr, ports }) => ({
    ...(host !== "" && { host }),
    ...(cidr !== "" && { cidr }),
    ...(ports.length > 0 && { ports: [...ports] }),
  }));
  const problem = networkProblem(network === "" ? undefined : network, allow);
  if (problem !== undefined) throw invalid(problem.replace("networkAllow", "network_allow"));
  const mode = networkModes.find((each) => each === network) ?? "none";
  return mode === "none" ? {} : { network: mode, ...(allow.length > 0 && { networkAllow: allow }) };
}

function volumesOf({ volumes }: CreateRequest): NonNullable<Sandbox["spec"]["volumes"]> {
  const references = volumes.map(({ name, mountPath, readOnly }) => ({ name, mountPath, ...(readOnly && { readOnly }) }));
  const problem = volumesProblem(references);
  if (problem !== undefined) throw invalid(problem.replace("mountPath", "mount_path"));
  return references;
}

function timeOf(unixSeconds: number): string {
  const ms = unixSeconds * 1000;
  if (!(ms <= 253_402_300_799_000)) throw invalid("expire_time_seconds: must not be after the year 9999");
  return formatTime(ms);
}

/** The merge patch of an update. **Errors**: InvalidArgument with the field's name. */
export function parseUpdate({ update, labels }: UpdateRequest): { readonly spec?: unknown; readonly metadata?: unknown } {
  const metadata = Object.keys(labels).length > 0 ? { metadata: { labels } } : {};
  switch (update.case) {
    case "expireTimeSeconds": {
      const seconds = Number(update.value);
      if (seconds < 0) throw invalid("expire_time_seconds: must be Unix seconds, or 0 to remove it");
      return { ...metadata, spec: { expireTime: seconds === 0 ? null : timeOf(seconds), expireTimeSeconds: null } };
    }
    case "resetRevision": {
      if (Number.isNaN(Date.parse(update.value)))
        throw invalid(`reset_revision: ${JSON.stringify(update.value)} is not an RFC 3339 time`);
      return { ...metadata, spec: { resetRevision: update.value } };
    }
    case "failurePolicy":
      return { ...metadata, spec: { failurePolicy: update.value === FailurePolicy.AUTO_RECREATE ? "AutoRecreate" : "Manual" } };
    case "recoveryTimeoutSeconds":
      return { ...metadata, spec: { recoveryTimeoutSeconds: update.value } };
    default:
      if (Object.keys(labels).length === 0) throw invalid("update: nothing to update");
      return metadata;
  }
}
