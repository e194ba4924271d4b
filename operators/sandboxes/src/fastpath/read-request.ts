import { Code, ConnectError } from "@connectrpc/connect";
import { dns1123SubdomainFaults } from "@keelson/api-machinery/validation";
import { isAmount, isPort } from "../protocol/protocol.ts";
import { reservedPorts } from "../api/names.ts";
import type { Sandbox } from "../api/sandbox.ts";
import { type CreateRequest, FailurePolicy, type UpdateRequest } from "./generated/fastpath/v1/fastpath_pb.ts";

const requestIdPattern = /^[\x21-\x7e]{1,128}$/;

const invalid = (message: string): ConnectError => new ConnectError(message, Code.InvalidArgument);

/** The request's id, if it has one. **Errors**: InvalidArgument where it cannot be an annotation's value. */
export function requestIdOf({ requestId }: CreateRequest): string | undefined {
  if (requestId === "") return undefined;
  if (!requestIdPattern.test(requestId)) throw invalid(`request_id: has to match ${requestIdPattern.source}`);
  return requestId;
}

/** The Sandbox that a create asks for. **Errors**: InvalidArgument, naming the field. */
export function specOf(request: CreateRequest, key: { namespace: string; name: string }): Sandbox["spec"] {
  const [problem] = dns1123SubdomainFaults(key.name);
  if (problem !== undefined) throw invalid(`name: ${problem}`);
  if (request.image === "") throw invalid("image: is missing");
  if (request.poolRef === "") throw invalid("pool_ref: is missing");
  const ports = new Set<number>();
  for (const port of request.exposedPorts) {
    if (!isPort(port)) throw invalid(`exposed_ports: ${String(port)} is no port; it has to be 1 to 65535`);
    if (reservedPorts.includes(port)) throw invalid(`exposed_ports: ${port} is a port of the agents and the fast path`);
    if (ports.has(port)) throw invalid(`exposed_ports: ${port} is there twice`);
    ports.add(port);
  }
  if (request.workingDir !== "" && !request.workingDir.startsWith("/")) throw invalid("working_dir: has to begin with /");
  for (const name of Object.keys(request.envs)) {
    if (name === "" || name.includes("=")) throw invalid(`envs: ${JSON.stringify(name)} cannot be a variable's name`);
  }
  const limits = Object.entries({ cpu: request.cpu, memory: request.memory }).filter(([, amount]) => amount !== "");
  for (const [name, amount] of limits) {
    if (!isAmount(amount))
      throw invalid(`${name}: ${JSON.stringify(amount)} has to be a quantity above 0, such as 500m or 256Mi`);
  }
  const seconds = Number(request.expireTimeSeconds);
  if (seconds < 0) throw invalid("expire_time_seconds: has to be Unix seconds, 0 for never");
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
    failurePolicy: request.failurePolicy === FailurePolicy.AUTO_RECREATE ? "AutoRecreate" : "Manual",
    recoveryTimeoutSeconds: 60,
  };
}

function timeOf(unixSeconds: number): string {
  const ms = unixSeconds * 1000;
  if (!(ms <= 253_402_300_799_000)) throw invalid("expire_time_seconds: is after the year 9999");
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

/** The merge patch that an update asks for. **Errors**: an Error that names the field. */
export function updateOf({ update, labels }: UpdateRequest): { readonly spec?: unknown; readonly metadata?: unknown } {
  const metadata = Object.keys(labels).length > 0 ? { metadata: { labels } } : {};
  switch (update.case) {
    case "expireTimeSeconds": {
      const seconds = Number(update.value);
      if (seconds < 0) throw new Error("expire_time_seconds: has to be Unix seconds, 0 removes it");
      return { ...metadata, spec: { expireTime: seconds === 0 ? null : timeOf(seconds), expireTimeSeconds: null } };
    }
    case "resetRevision": {
      if (Number.isNaN(Date.parse(update.value)))
        throw new Error(`reset_revision: ${JSON.stringify(update.value)} is no RFC 3339 time`);
      return { ...metadata, spec: { resetRevision: update.value } };
    }
    case "failurePolicy":
      return { ...metadata, spec: { failurePolicy: update.value === FailurePolicy.AUTO_RECREATE ? "AutoRecreate" : "Manual" } };
    case "recoveryTimeoutSeconds":
      return { ...metadata, spec: { recoveryTimeoutSeconds: update.value } };
    default:
      if (Object.keys(labels).length === 0) throw new Error("nothing is to be updated");
      return metadata;
  }
}
