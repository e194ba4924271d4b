import { isJsonObject, type JsonObject, type JsonValue } from "@keelson/api-machinery";
import { sampleValue } from "../template/render-template.ts";
import { PluginError } from "./read-plugin.ts";

/**
 * Validates a rendered Pod, so that an error names the plugin's field instead of the API server's. Without an agent, only the kubelet
 * restarts its programs. `isSample`: values that only an App has are replaced by {@link sampleValue}.
 *
 * **Errors**: a {@link PluginError} that names the field.
 */
export function checkPod(pod: JsonObject, hasAgent: boolean, isSample: boolean): void {
  const { spec } = pod;
  const containers = isJsonObject(spec) && Array.isArray(spec.containers) ? (spec.containers as readonly JsonValue[]) : [];
  if (containers.length === 0) throw new PluginError("Pod: spec.containers: must have at least one container");
  const { restartPolicy = "Always" } = isJsonObject(spec) ? spec : {};
  if (!hasAgent && restartPolicy !== "Always")
    throw new PluginError(`Pod: spec.restartPolicy: ${JSON.stringify(restartPolicy)} must be Always without an agent`);
  containers.forEach((container, index) => {
    const field = `Pod: spec.containers[${index}]`;
    if (!isJsonObject(container)) throw new PluginError(`${field}: must be a map`);
    for (const key of ["name", "image"])
      if (!isText(container[key], isSample)) throw new PluginError(`${field}.${key}: required`);
    checkPorts(container.ports, "containerPort", `${field}.ports`);
  });
}

const isText = (value: JsonValue | undefined, isSample: boolean): boolean =>
  (typeof value === "string" && value !== "") || (isSample && value === sampleValue);

/** Validates the ports of a container or a Service. `key` is the name of the port field. */
export function checkPorts(ports: JsonValue | undefined, key: string, field: string): void {
  if (!Array.isArray(ports)) return;
  (ports as readonly JsonValue[]).forEach((port, index) => {
    const number = isJsonObject(port) ? port[key] : undefined;
    if (!Number.isInteger(number) || Number(number) < 1 || Number(number) > 65_535)
      throw new PluginError(`${field}[${index}].${key}: ${JSON.stringify(number ?? null)} must be between 1 and 65535`);
  });
}
