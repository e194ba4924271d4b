import type { ServiceObject } from "@keelson/api-machinery/kinds";
import * as check from "../../field-checks.ts";
import { listAt, textAt } from "../../object-fields.ts";
import type { ReceivedObject } from "../../received.ts";

type Service = ReceivedObject<ServiceObject>;

/** Warnings about fields of a Service that are deprecated or have no effect. */
export function serviceWarnings(service: Service): string[] {
  return [
    ...headlessWarnings(service),
    ...addressWarnings(service),
    ...typeWarnings(service),
    ...distributionWarnings(service),
  ];
}

const hintsAnnotation = "service.kubernetes.io/topology-aware-hints";

/** Fields that a headless Service ignores. */
function headlessWarnings({ spec, metadata }: Service): string[] {
  const warnings: string[] = [];
  if (metadata.annotations?.[hintsAnnotation] !== undefined) {
    warnings.push(`annotation ${hintsAnnotation} is deprecated, please use service.kubernetes.io/topology-mode instead`);
  }
  if (spec?.type !== "ClusterIP" || spec.clusterIP !== "None") return warnings;
  if (textAt(spec, "loadBalancerIP") !== "") warnings.push("spec.loadBalancerIP is ignored for headless services");
  if (listAt(spec, "externalIPs").length > 0) warnings.push("spec.externalIPs is ignored for headless services");
  if (spec.sessionAffinity !== "None") warnings.push("spec.SessionAffinity is ignored for headless services");
  return warnings;
}

/** Fields that have no effect with the type of a Service. */
function typeWarnings({ spec }: Service): string[] {
  const warnings: string[] = [];
  const isExternal = spec?.type === "ExternalName";
  if (isExternal && listAt(spec, "externalIPs").length > 0) {
    warnings.push('spec.externalIPs is ignored when spec.type is "ExternalName"');
  }
  if (!isExternal && textAt(spec, "externalName") !== "") {
    warnings.push('spec.externalName is ignored when spec.type is not "ExternalName"');
  }
  return warnings;
}

function distributionWarnings({ spec }: Service): string[] {
  if (spec?.trafficDistribution !== "PreferClose") return [];
  return ['spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'];
}

function addressWarnings(service: Service): string[] {
  return (service.spec?.externalIPs ?? []).flatMap((address, index) => {
    if (typeof address !== "string" || check.standardAddress(address) === address) return [];
    const field = `spec.externalIPs[${index}]`;
    const advice = `will be considered invalid in a future Kubernetes release: use ${JSON.stringify(check.standardAddress(address))}`;
    return [`${field}: non-standard IP address ${JSON.stringify(address)} ${advice}`];
  });
}
