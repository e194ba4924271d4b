import {
  dns1035LabelFaults,
  dns1123SubdomainFaults,
  invalidCause,
  notSupportedCause,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import { listAt, objectAt, setField, textAt, valueAt } from "../../object-fields.ts";
import type { ServedResource } from "../../served-resource.ts";
import type { Read } from "../workload/workload.ts";
import type { Causes } from "../../causes.ts";

/** apiregistration.k8s.io/v1 APIServices: the API group versions of this server, and those that other servers serve through it. */
export function apiServiceKinds(): readonly ServedResource[] {
  return [
    builtinResource({
      group: "apiregistration.k8s.io",
      version: "v1",
      kind: "APIService",
      plural: "apiservices",
      categories: ["api-extensions"],
      scope: "Cluster",
      hasStatus: true,
      columns: [
        column("Name", "The name of the object.", { format: "name" }),
        column("Service", "The reference to the service that hosts this API endpoint."),
        column("Available", "Whether this service is available."),
        ageColumn,
      ],
      cells: (object, now) => [
        object.metadata.name ?? "",
        serviceCell(object),
        availableCell(object),
        age(object.metadata.creationTimestamp, now),
      ],
      strategy: {
        hasGeneration: false,
        default: (object) => {
          const service = objectAt(object, "spec", "service");
          if (service !== undefined) service["port"] ??= 443;
        },
        prepareForCreate: (object) => setField(object, "status", {}),
        validate: apiServiceCauses,
        status: { validate: statusCauses },
      },
    }),
  ];
}

function serviceCell(object: unknown): string {
  const service = valueAt(object, "spec", "service");
  return service === undefined ? "Local" : `${textAt(service, "namespace")}/${textAt(service, "name")}`;
}

function availableCell(object: unknown): string {
  const condition = listAt(object, "status", "conditions").find((each) => textAt(each, "type") === "Available");
  const status = textAt(condition, "status") || "Unknown";
  const reason = textAt(condition, "reason");
  return status === "True" || reason === "" ? status : `${status} (${reason})`;
}

function* apiServiceCauses(object: Read): Causes {
  const spec = valueAt(object, "spec");
  const [name, group, version] = [object.metadata.name ?? "", textAt(spec, "group"), textAt(spec, "version")];
  const required = `${version}.${group}`;

  if (name !== required) {
    yield invalidCause("metadata.name", name, `must be \`spec.version+"."+spec.group\`: ${JSON.stringify(required)}`);
  }
  if (group === "" && version !== "v1") {
    yield requiredCause("spec.group", "only v1 may have an empty group and it better be legacy kube");
  }
  if (group !== "") yield* dns1123SubdomainFaults(group).map((fault) => invalidCause("spec.group", group, fault));
  yield* dns1035LabelFaults(version).map((fault) => invalidCause("spec.version", version, fault));
  yield* priorityCauses(spec, "groupPriorityMinimum", 20_000);
  yield* priorityCauses(spec, "versionPriority", 1_000);
  const service = valueAt(spec, "service");
  yield* service === undefined ? localCauses(spec) : serviceCauses(spec, service);
}

function priorityCauses(spec: unknown, field: string, max: number): StatusCause[] {
  const value = valueAt(spec, field) ?? 0;
  if (typeof value === "number" && value > 0 && value <= max) return [];
  return [invalidCause(`spec.${field}`, value, `must be positive and less than ${max}`)];
}

function localCauses(spec: unknown): StatusCause[] {
  const bundle = Buffer.from(textAt(spec, "caBundle"), "base64");
  return [
    ...(bundle.length === 0
      ? []
      : [invalidCause("spec.caBundle", `${bundle.length} bytes`, "local APIServices may not have a caBundle")]),
    ...(valueAt(spec, "insecureSkipTLSVerify") === true
      ? [invalidCause("spec.insecureSkipTLSVerify", true, "local APIServices may not have insecureSkipTLSVerify")]
      : []),
  ];
}

function serviceCauses(spec: unknown, service: unknown): StatusCause[] {
  const port = valueAt(service, "port");
  const isPort = typeof port === "number" && port >= 1 && port <= 65535;
  const missing = ["namespace", "name"].filter((field) => textAt(service, field) === "");
  const isAmbiguous = valueAt(spec, "insecureSkipTLSVerify") === true && textAt(spec, "caBundle") !== "";
  return [
    ...missing.map((field) => requiredCause(`spec.service.${field}`)),
    ...(isPort ? [] : [invalidCause("spec.service.port", port, "port is not valid: must be between 1 and 65535, inclusive")]),
    ...(isAmbiguous ? [invalidCause("spec.insecureSkipTLSVerify", true, "may not be true if caBundle is present")] : []),
  ];
}

function statusCauses(object: Read): StatusCause[] {
  const known = ["True", "False", "Unknown"];
  return listAt(object, "status", "conditions").flatMap((condition, index) => {
    const status = textAt(condition, "status");
    return known.includes(status) ? [] : [notSupportedCause(`status.conditions[${index}].status`, status, known)];
  });
}
