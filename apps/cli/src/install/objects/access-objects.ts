import type { ResourceDefinition } from "@keelson/api-machinery";
import type { PolicyRule } from "@keelson/api-machinery/kinds";
import { accessReviewRules } from "@keelson/controller/access";
import { clusterRulesOf, leaderElectionRules, leaseNameOf, type Operator, webhookCertificateRules } from "@keelson/operator";
import { all, installNamespace, isSet, type Template, type TemplateMap, value, when } from "../template/template.ts";
import { clusterWide, type InstallObject, labelsOf, literal, namespaced, roleName } from "./install-object.ts";

const rbac = "rbac.authorization.k8s.io";
const rbacVersion = `${rbac}/v1`;

/** The service account of an operator and its permissions: exactly the rules that the operator declares. */
export function accessObjects(operator: Operator): readonly InstallObject[] {
  const { name } = operator;
  const enabled = isSet(`${name}.enabled`);
  const role = roleName(operator);
  const subjects = [{ kind: "ServiceAccount", name, namespace: installNamespace }];
  const reviews = isSet("metrics.enabled");
  const metricsRules = accessReviewRules.filter((rule) => !operator.rules.includes(rule));
  const objects: readonly TemplateMap[] = [
    { apiVersion: "v1", kind: "ServiceAccount", metadata: namespaced(name, name) },
    {
      ...{ apiVersion: rbacVersion, kind: "ClusterRole", metadata: clusterWide(role, name) },
      // Metrics are authorized by the API server.
      rules: [...clusterRulesOf(operator).map(literal), ...metricsRules.map((rule) => when(reviews, literal(rule)))],
    },
    binding("ClusterRole", clusterWide(role, name), role, subjects),
    {
      ...{ apiVersion: rbacVersion, kind: "Role", metadata: namespaced(role, name) },
      rules: [...leaderElectionRules(leaseNameOf(operator)), ...webhookCertificateRules(operator)].map(literal),
    },
    binding("Role", namespaced(role, name), role, subjects),
  ];
  return [...objects.map((template) => ({ condition: enabled, template })), ...extraRules(operator), ...userRoles(operator)];
}

function binding(
  kind: "Role" | "ClusterRole",
  metadata: TemplateMap,
  role: string,
  subjects: readonly Template[],
): TemplateMap {
  return { apiVersion: rbacVersion, kind: `${kind}Binding`, metadata, roleRef: { apiGroup: rbac, kind, name: role }, subjects };
}

/** The permissions on whatever the tests of the test plane touch, which only the administrator knows. */
function extraRules({ name }: Operator): readonly InstallObject[] {
  if (name !== "testplane") return [];
  const condition = all(isSet("testplane.enabled"), isSet("testplane.extraRules"));
  const role = "keelson:testplane:extra";
  const metadata = clusterWide(role, name);
  const subjects = [{ kind: "ServiceAccount", name, namespace: installNamespace }];
  return [
    {
      condition,
      template: { apiVersion: rbacVersion, kind: "ClusterRole", metadata, rules: value("testplane.extraRules") },
    },
    { condition, template: binding("ClusterRole", metadata, role, subjects) },
  ];
}

/** Roles that Kubernetes adds to its roles `view`, `edit` and `admin`. */
function userRoles({ name, resources, userRules = {} }: Operator): readonly InstallObject[] {
  const condition = all(isSet(`${name}.enabled`), isSet("rbac.aggregate"));
  const role = (suffix: string, into: readonly string[], rules: readonly PolicyRule[]): InstallObject => ({
    condition,
    template: {
      ...{ apiVersion: rbacVersion, kind: "ClusterRole" },
      metadata: {
        name: `keelson:${name}:${suffix}`,
        labels: { ...labelsOf(name), ...Object.fromEntries(into.map((each) => [`${rbac}/aggregate-to-${each}`, "true"])) },
      },
      rules: rules.map(literal),
    },
  });
  return [
    role(
      "view",
      ["view", "edit", "admin"],
      [...rulesFor(resources, ["get", "list", "watch"], [""]), ...(userRules.view ?? [])],
    ),
    role(
      "edit",
      ["edit", "admin"],
      [...rulesFor(resources, ["create", "update", "patch", "delete", "deletecollection"], [""]), ...(userRules.edit ?? [])],
    ),
    role("admin", ["admin"], rulesFor(resources, ["get", "update", "patch"], ["/status"])),
  ];
}

function rulesFor(
  resources: readonly ResourceDefinition[],
  verbs: readonly string[],
  suffixes: readonly string[],
): readonly PolicyRule[] {
  const groups = [...new Set(resources.map(({ group }) => group))];
  return groups.map((group) => ({
    apiGroups: [group],
    resources: resources
      .filter((resource) => resource.group === group)
      .flatMap(({ plural }) => suffixes.map((suffix) => `${plural}${suffix}`)),
    verbs: [...verbs],
  }));
}
