import type { Operator } from "@keelson/operator";
import { all, installNamespace, isSet, type TemplateMap, value, when } from "../template/template.ts";
import { clusterWide, type InstallObject, type InstallPart, labelsOf, literal } from "./install-object.ts";

/** The namespace. Pods with more permissions than `restricted` are rejected in it; the operators need none. */
export function namespaceObject(): InstallObject {
  return {
    condition: isSet("namespace.create"),
    template: {
      apiVersion: "v1",
      kind: "Namespace",
      metadata: {
        name: installNamespace,
        labels: { ...labelsOf("shared"), "pod-security.kubernetes.io/enforce": "restricted" },
      },
    },
  };
}

/** The ClusterRole of Prometheus, which an administrator binds to its service account. */
export function metricsReaderRole(): InstallObject {
  return {
    condition: isSet("metrics.enabled"),
    template: {
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "ClusterRole",
      metadata: clusterWide("keelson:metrics-reader", "shared"),
      rules: [{ nonResourceURLs: ["/metrics"], verbs: ["get"] }],
    },
  };
}

/**
 * The CustomResourceDefinitions of an operator, a part each. They are ordinary objects, not in the chart's `crds` directory, because Helm never
 * upgrades that directory.
 */
export function crdParts({ name, resources }: Operator): readonly InstallPart[] {
  return resources.map(({ crd }) => {
    const { apiVersion, kind, spec } = crd;
    const metadata: TemplateMap = {
      name: crd.metadata.name,
      labels: labelsOf(name),
      annotations: when(isSet("crds.keep"), { "helm.sh/resource-policy": "keep" }),
    };
    const object: InstallObject = {
      condition: all(isSet("crds.install"), isSet(`${name}.enabled`)),
      template: { apiVersion, kind, metadata, spec: literal(spec) },
    };
    return { name: `crds/${crd.metadata.name}`, objects: [object] };
  });
}

/** The fields of every Pod that the installation's values set. */
export function schedulingFields(): TemplateMap {
  return {
    imagePullSecrets: when(isSet("imagePullSecrets"), value("imagePullSecrets")),
    runtimeClassName: when(isSet("runtimeClassName"), value("runtimeClassName")),
    priorityClassName: when(isSet("priorityClassName"), value("priorityClassName")),
    nodeSelector: when(isSet("nodeSelector"), value("nodeSelector")),
    tolerations: when(isSet("tolerations"), value("tolerations")),
    affinity: when(isSet("affinity"), value("affinity")),
  };
}

/** The security context of a Pod and of its container: the Pod Security Standard `restricted`, with a read-only root. */
export function restricted(user: number): { readonly pod: TemplateMap; readonly container: TemplateMap } {
  return {
    pod: {
      runAsNonRoot: true,
      runAsUser: user,
      runAsGroup: user,
      fsGroup: user,
      seccompProfile: { type: "RuntimeDefault" },
    },
    container: { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ["ALL"] } },
  };
}
