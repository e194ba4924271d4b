import { type DeepReadonly, jsonEquals, type KubernetesObject } from "@keelson/api-machinery";
import {
  invalidCause,
  notSupportedCause,
  pathSegmentFaults,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, type BuiltinKind, builtinResource, column } from "../../builtin/builtin-resource.ts";
import { dnsSubdomain, labelSelector } from "../../field-checks.ts";
import { listAt, mapAt, setField, textAt, valueAt } from "../../object-fields.ts";
import type { ServedResource } from "../../served-resource.ts";
import { type Causes, countCauses, eachItem } from "../../causes.ts";

type Read = DeepReadonly<KubernetesObject>;

const group = "rbac.authorization.k8s.io";

/** rbac.authorization.k8s.io: Roles and ClusterRoles, and their bindings. */
export function rbacKinds(): readonly ServedResource[] {
  return [
    builtinResource(binding("ClusterRoleBinding", "Cluster")),
    builtinResource(role("ClusterRole", "Cluster")),
    builtinResource(binding("RoleBinding", "Namespaced")),
    builtinResource(role("Role", "Namespaced")),
  ];
}

type RbacKind = Pick<BuiltinKind, "scope" | "kind">;

function role(kind: RbacKind["kind"], scope: RbacKind["scope"]): BuiltinKind {
  const prepare = (object: KubernetesObject): void => {
    if (valueAt(object, "rules") === undefined) setField(object, "rules", null);
  };
  return {
    group,
    version: "v1",
    kind,
    plural: `${kind.toLowerCase()}s`,
    scope,
    strategy: {
      hasGeneration: false,
      prepareForCreate: prepare,
      prepareForUpdate: prepare,
      *validate(object) {
        yield* eachItem(listAt(object, "rules"), (rule, index) => ruleCauses(rule, `rules[${index}]`, scope));
        yield* aggregationCauses(valueAt(object, "aggregationRule"));
      },
    },
  };
}

function* aggregationCauses(aggregation: unknown): Causes {
  if (aggregation === undefined) return;
  const path = "aggregationRule.clusterRoleSelectors";
  const selectors = listAt(aggregation, "clusterRoleSelectors");
  yield* eachItem(selectors, function* (selector, index) {
    const faults = yield* countCauses(labelSelector(`${path}[${index}]`, selector));
    if (faults > 0) yield invalidCause(`${path}[${index}]`, null, "invalid label selector.");
  });
  if (selectors.length > 0) return;
  yield requiredCause(path, "at least one clusterRoleSelector required if aggregationRule is non-nil");
}

function ruleCauses(rule: unknown, path: string, scope: RbacKind["scope"]): StatusCause[] {
  const causes: StatusCause[] = [];
  if (listAt(rule, "verbs").length === 0) causes.push(requiredCause(`${path}.verbs`, "verbs must contain at least one value"));
  const urls = listAt(rule, "nonResourceURLs");
  if (urls.length > 0) {
    if (scope === "Namespaced") {
      causes.push(invalidCause(`${path}.nonResourceURLs`, urls, "namespaced rules cannot apply to non-resource URLs"));
    }
    const others = ["apiGroups", "resources", "resourceNames"].some((field) => listAt(rule, field).length > 0);
    if (others) {
      causes.push(
        invalidCause(`${path}.nonResourceURLs`, urls, "rules cannot apply to both regular resources and non-resource URLs"),
      );
    }
    return causes;
  }
  if (listAt(rule, "apiGroups").length === 0) {
    causes.push(requiredCause(`${path}.apiGroups`, "resource rules must supply at least one api group"));
  }
  if (listAt(rule, "resources").length === 0) {
    causes.push(requiredCause(`${path}.resources`, "resource rules must supply at least one resource"));
  }
  return causes;
}

function binding(kind: RbacKind["kind"], scope: RbacKind["scope"]): BuiltinKind {
  return {
    group,
    version: "v1",
    kind,
    plural: `${kind.toLowerCase()}s`,
    scope,
    columns: [
      column("Role", "The granted role."),
      ageColumn,
      column("Users", "Users with the role.", { wide: true }),
      column("Groups", "Groups with the role.", { wide: true }),
      column("ServiceAccounts", "Service accounts with the role.", { wide: true }),
    ],
    cells: (object, now) => [
      `${textAt(object, "roleRef", "kind")}/${textAt(object, "roleRef", "name")}`,
      age(object.metadata.creationTimestamp, now),
      subjectNames(object, "User"),
      subjectNames(object, "Group"),
      subjectNames(object, "ServiceAccount"),
    ],
    strategy: {
      hasGeneration: false,
      prepareForCreate: setBindingDefaults,
      prepareForUpdate: setBindingDefaults,
      *validate(object) {
        yield* roleRefCauses(object, scope);
        yield* eachItem(listAt(object, "subjects"), (subject, index) => subjectCauses(subject, `subjects[${index}]`, scope));
      },
      validateUpdate: (object, old) =>
        jsonEquals(mapAt(object, "roleRef"), mapAt(old, "roleRef"))
          ? []
          : [invalidCause("roleRef", shownRoleRef(object), "cannot change roleRef")],
    },
  };
}

function subjectNames(object: Read, kind: string): string {
  return listAt(object, "subjects")
    .filter((subject) => textAt(subject, "kind") === kind)
    .map((subject) => {
      const name = textAt(subject, "name");
      return kind === "ServiceAccount" ? `${textAt(subject, "namespace")}/${name}` : name;
    })
    .join(", ");
}

function setBindingDefaults(object: KubernetesObject): void {
  const roleRef = valueAt(object, "roleRef");
  if (typeof roleRef === "object" && roleRef !== null && textAt(roleRef, "apiGroup") === "")
    setField(roleRef, "apiGroup", group);
  for (const subject of listAt(object, "subjects")) {
    if (typeof subject !== "object" || subject === null || textAt(subject, "apiGroup") !== "") continue;
    if (["User", "Group"].includes(textAt(subject, "kind"))) setField(subject, "apiGroup", group);
  }
}

/** The role as Go prints it, whose internal type has no JSON names. */
function shownRoleRef(object: Read): object {
  const [APIGroup, Kind, Name] = ["apiGroup", "kind", "name"].map((field) => textAt(object, "roleRef", field));
  return { APIGroup, Kind, Name };
}

function roleRefCauses(object: Read, scope: RbacKind["scope"]): StatusCause[] {
  const causes: StatusCause[] = [];
  const apiGroup = textAt(object, "roleRef", "apiGroup");
  const kind = textAt(object, "roleRef", "kind");
  const kinds = scope === "Cluster" ? ["ClusterRole"] : ["Role", "ClusterRole"];
  if (apiGroup !== group) causes.push(notSupportedCause("roleRef.apiGroup", apiGroup, [group]));
  if (!kinds.includes(kind)) causes.push(notSupportedCause("roleRef.kind", kind, kinds));
  const name = textAt(object, "roleRef", "name");
  if (name === "") causes.push(requiredCause("roleRef.name"));
  causes.push(...pathSegmentFaults(name).map((fault) => invalidCause("roleRef.name", name, fault)));
  return causes;
}

function subjectCauses(subject: unknown, path: string, scope: RbacKind["scope"]): StatusCause[] {
  const causes: StatusCause[] = [];
  const kind = textAt(subject, "kind");
  const apiGroup = textAt(subject, "apiGroup");
  if (textAt(subject, "name") === "") causes.push(requiredCause(`${path}.name`));
  if (kind === "ServiceAccount") {
    causes.push(...dnsSubdomain(`${path}.name`, valueAt(subject, "name")));
    if (apiGroup !== "") causes.push(notSupportedCause(`${path}.apiGroup`, apiGroup, [""]));
    if (scope === "Cluster" && textAt(subject, "namespace") === "") causes.push(requiredCause(`${path}.namespace`));
  } else if (kind === "User" || kind === "Group") {
    if (apiGroup !== group) causes.push(notSupportedCause(`${path}.apiGroup`, apiGroup, [group]));
  } else {
    causes.push(notSupportedCause(`${path}.kind`, kind, ["ServiceAccount", "User", "Group"]));
  }
  return causes;
}
