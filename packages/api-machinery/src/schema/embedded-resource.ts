import { isJsonObject } from "../objects/json.ts";
import { childPath, invalidCause, requiredCause } from "../protocol/field-causes.ts";
import type { StatusCause } from "../protocol/status.ts";
import { dns1035LabelFaults, dns1123SubdomainFaults } from "../values/names.ts";

/** Checks type and metadata of a value with `x-kubernetes-embedded-resource`. */
export function checkEmbeddedResource(value: Record<string, unknown>, path: string, causes: StatusCause[]): void {
  const { apiVersion, kind, metadata } = value;
  const versionPath = childPath(path, "apiVersion");
  if (apiVersion === undefined || apiVersion === "") causes.push(requiredCause(versionPath));
  else if (typeof apiVersion === "string" && apiVersion.split("/").length > 2) {
    causes.push(invalidCause(versionPath, apiVersion, `unexpected GroupVersion string: ${apiVersion}`));
  }
  const kindPath = childPath(path, "kind");
  if (kind === undefined || kind === "") causes.push(requiredCause(kindPath));
  else if (typeof kind === "string" && dns1035LabelFaults(kind.toLowerCase()).length > 0) {
    const detail = `may have mixed case, but should otherwise match: ${dns1035LabelFaults(kind.toLowerCase()).join(", ")}`;
    causes.push(invalidCause(kindPath, kind, detail));
  }
  if (!isJsonObject(metadata)) return;
  const namePath = childPath(path, "metadata.name");
  if (typeof metadata.name === "string" && metadata.name !== "") {
    for (const fault of dns1123SubdomainFaults(metadata.name)) causes.push(invalidCause(namePath, metadata.name, fault));
  }
}
