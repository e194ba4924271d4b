import { isJsonObject, type JsonObject, type JsonValue, type KubernetesObject } from "@keelson/api-machinery";
import type { Operator } from "@keelson/operator";
import { accessObjects } from "./objects/access-objects.ts";
import { mosquittoObjects } from "./objects/broker-objects.ts";
import type { InstallPart } from "./objects/install-object.ts";
import { monitoringObjects } from "./objects/monitoring-objects.ts";
import { networkObjects } from "./objects/network-objects.ts";
import { proxyObjects } from "./objects/proxy-objects.ts";
import { robotsExecObjects } from "./objects/robots-exec-objects.ts";
import { crdParts, metricsReaderRole, namespaceObject } from "./objects/shared-objects.ts";
import { workloadObjects } from "./objects/workload-objects.ts";
import { evaluateTemplate, holds } from "./template/evaluate-template.ts";
import type { Rendering } from "./template/template.ts";

/** Everything that an installation consists of, in the order in which it is applied. */
export function installParts(operators: readonly Operator[]): readonly InstallPart[] {
  return [
    { name: "shared", objects: [namespaceObject(), metricsReaderRole()] },
    ...operators.flatMap(crdParts),
    ...operators.map((operator) => ({
      name: operator.name,
      objects: [
        ...accessObjects(operator),
        ...workloadObjects(operator),
        ...networkObjects(operator),
        ...monitoringObjects(operator),
        ...(operator.name === "robots" ? [...mosquittoObjects(), ...robotsExecObjects()] : []),
        ...(operator.name === "sandboxes" ? proxyObjects() : []),
      ],
    })),
  ];
}

/** An object to apply. */
export type InstalledObject = JsonObject & Pick<KubernetesObject, "apiVersion" | "kind" | "metadata">;

/** Renders the parts to objects. Pure. */
export function renderInstallation(parts: readonly InstallPart[], rendering: Rendering): readonly InstalledObject[] {
  return parts.flatMap(({ objects }) =>
    objects
      .filter(({ condition }) => condition === undefined || holds(condition, rendering))
      .map(({ template }) => {
        const object = evaluateTemplate(template, rendering);
        if (!isInstalledObject(object))
          throw new TypeError("a template must render an object with apiVersion, kind and metadata");
        return object;
      }),
  );
}

function isInstalledObject(object: JsonValue): object is InstalledObject {
  return (
    isJsonObject(object) &&
    typeof object.apiVersion === "string" &&
    typeof object.kind === "string" &&
    isJsonObject(object.metadata)
  );
}
