import { type DeepReadonly, isJsonObject, type KubernetesObject } from "@keelson/api-machinery";
import type { PolicyRule } from "@keelson/api-machinery/kinds";
import type { Store, StoredObject } from "../../storage/store.ts";
import { rulesOf } from "./policy-rule.ts";
import { serviceAccountUser } from "../authentication/service-account.ts";

/** A role granted to a subject by one binding. */
export interface Grant {
  /** Key of the role in the index. */
  readonly role: string;
  /** `ClusterRoleBinding "x" of ClusterRole "y" to User "z"`. */
  readonly description: string;
}

/** The API group of RBAC. */
export const rbacGroup = "rbac.authorization.k8s.io";

const prefix = `${rbacGroup}/`;

/**
 * An index of the roles and bindings in the store, kept current by a watch, so that a decision inspects only one user's bindings:
 *
 *     subject "Group:dev" -> "" (everywhere) -> [grant of ClusterRole view]
 *                         -> "robots"        -> [grant of Role operator in robots]
 */
export class RoleIndex {
  readonly #roles = new Map<string, StoredRole>();
  /** Memoizes the rules of each role including aggregated ones. Cleared when a role changes. */
  readonly #effective = new Map<string, readonly PolicyRule[]>();
  readonly #bindings = new Map<string, readonly Placement[]>();
  readonly #grants = new Map<string, Map<string, Grant[]>>();
  readonly #watch: { close(): void };

  /** Lists the store, then watches it until `close`. */
  constructor(store: Pick<Store, "list" | "watch">) {
    const page = store.list(prefix);
    for (const stored of page.items) this.#put(stored);
    this.#watch = store.watch(prefix, page.revision, (events) => {
      for (const event of events) {
        if (event.type === "put") this.#put(event.object);
        else this.#remove(event.object.key);
      }
    });
  }

  /** The grants of a subject (`User:name` or `Group:name`) in `namespace`, or the cluster-wide ones for `""`. */
  grants(subject: string, namespace: string): readonly Grant[] {
    return this.#grants.get(subject)?.get(namespace) ?? none;
  }

  /** The rules of a role by its key, including aggregated ones; undefined if it does not exist. */
  rules(role: string): readonly PolicyRule[] | undefined {
    const known = this.#effective.get(role);
    if (known !== undefined) return known;
    if (!this.#roles.has(role)) return undefined;
    const rules = this.#collect(role, new Set());
    this.#effective.set(role, rules);
    return rules;
  }

  close(): void {
    this.#watch.close();
  }

  #put(stored: StoredObject): void {
    const [, plural, namespace = ""] = stored.key.split("/");
    if (plural === "roles" || plural === "clusterroles") {
      this.#roles.set(stored.key, readRole(stored.object, plural === "clusterroles"));
      this.#effective.clear();
    } else if (plural === "rolebindings" || plural === "clusterrolebindings") {
      this.#unbind(stored.key);
      const placements = readBinding(stored.object, namespace);
      this.#bindings.set(stored.key, placements);
      for (const { subject, grant } of placements) {
        let byNamespace = this.#grants.get(subject);
        if (byNamespace === undefined) this.#grants.set(subject, (byNamespace = new Map()));
        byNamespace.set(namespace, [...(byNamespace.get(namespace) ?? []), grant]);
      }
    }
  }

  #remove(key: string): void {
    if (this.#roles.delete(key)) this.#effective.clear();
    this.#unbind(key);
  }

  #unbind(key: string): void {
    const namespace = key.split("/")[2] ?? "";
    for (const { subject, grant } of this.#bindings.get(key) ?? []) {
      const byNamespace = this.#grants.get(subject);
      const left = byNamespace?.get(namespace)?.filter((other) => other !== grant) ?? [];
      if (left.length > 0) byNamespace?.set(namespace, left);
      else byNamespace?.delete(namespace);
      if (byNamespace?.size === 0) this.#grants.delete(subject);
    }
    this.#bindings.delete(key);
  }

  #collect(key: string, visited: Set<string>): readonly PolicyRule[] {
    if (visited.has(key)) return none;
    visited.add(key);
    const role = this.#roles.get(key);
    if (role === undefined) return none;
    if (role.aggregates === undefined) return role.rules;
    const rules = [...role.rules];
    for (const [other, candidate] of this.#roles) {
      if (candidate.isClusterRole && role.aggregates.some((matches) => matches(candidate.labels))) {
        rules.push(...this.#collect(other, visited));
      }
    }
    return rules;
  }
}

/** The index key of a role. `namespace` is `""` for a ClusterRole. */
function roleKey(kind: "Role" | "ClusterRole", namespace: string, name: string): string {
  return kind === "Role" ? `${prefix}roles/${namespace}/${name}` : `${prefix}clusterroles//${name}`;
}

/** The role that a binding in `namespace` references (`""` for a ClusterRoleBinding); undefined if the reference is invalid. */
export function roleOfBinding(binding: DeepReadonly<KubernetesObject>, namespace: string): RoleReference | undefined {
  const reference = (binding as { roleRef?: unknown }).roleRef;
  if (!isJsonObject(reference) || typeof reference["name"] !== "string") return undefined;
  const kind = reference["kind"];
  if (kind !== "ClusterRole" && !(kind === "Role" && namespace !== "")) return undefined;
  return { kind, name: reference["name"], key: roleKey(kind, namespace, reference["name"]) };
}

/** A role reference of a binding. */
export interface RoleReference {
  readonly kind: "Role" | "ClusterRole";
  readonly name: string;
  readonly key: string;
}

interface StoredRole {
  readonly rules: readonly PolicyRule[];
  readonly labels: Readonly<Record<string, string>>;
  readonly isClusterRole: boolean;
  /** Selectors of the ClusterRoles that this role aggregates. */
  readonly aggregates: readonly LabelMatcher[] | undefined;
}

interface Placement {
  readonly subject: string;
  readonly grant: Grant;
}

type LabelMatcher = (labels: Readonly<Record<string, string>>) => boolean;

const none: readonly never[] = [];

function readRole(object: DeepReadonly<KubernetesObject>, isClusterRole: boolean): StoredRole {
  const role = object as { rules?: unknown; aggregationRule?: unknown };
  const aggregation =
    isClusterRole && isJsonObject(role.aggregationRule) ? role.aggregationRule["clusterRoleSelectors"] : undefined;
  return {
    rules: rulesOf(role.rules),
    labels: object.metadata.labels ?? {},
    isClusterRole,
    aggregates: Array.isArray(aggregation) ? aggregation.map(labelMatcher) : undefined,
  };
}

function readBinding(object: DeepReadonly<KubernetesObject>, namespace: string): Placement[] {
  const role = roleOfBinding(object, namespace);
  const subjects = (object as { subjects?: unknown }).subjects;
  if (role === undefined || !Array.isArray(subjects)) return [];
  const name = object.metadata.name ?? "";
  const binding = namespace === "" ? `ClusterRoleBinding "${name}"` : `RoleBinding "${name}/${namespace}"`;
  return subjects.filter(isJsonObject).flatMap((subject) => {
    const subjectName = subject["name"];
    if (typeof subjectName !== "string") return [];
    const kind = subject["kind"];
    const grant = (label: string): Grant => ({
      role: role.key,
      description: `${binding} of ${role.kind} "${role.name}" to ${kind as string} "${label}"`,
    });
    switch (kind) {
      case "User":
      case "Group":
        return [{ subject: `${kind}:${subjectName}`, grant: grant(subjectName) }];
      case "ServiceAccount": {
        const home = typeof subject["namespace"] === "string" && subject["namespace"] !== "" ? subject["namespace"] : namespace;
        if (home === "") return [];
        return [
          {
            subject: `User:${serviceAccountUser({ namespace: home, name: subjectName })}`,
            grant: grant(`${subjectName}/${home}`),
          },
        ];
      }
      default:
        return [];
    }
  });
}

/** Parses a meta/v1 LabelSelector. A malformed or empty one selects nothing, so that it does not grant permissions by accident. */
function labelMatcher(selector: unknown): LabelMatcher {
  if (!isJsonObject(selector)) return () => false;
  const wanted = isJsonObject(selector["matchLabels"]) ? Object.entries(selector["matchLabels"]) : [];
  const expressions = Array.isArray(selector["matchExpressions"]) ? selector["matchExpressions"] : [];
  if (wanted.length === 0 && expressions.length === 0) return () => false;
  return (labels) =>
    wanted.every(([key, value]) => Object.hasOwn(labels, key) && labels[key] === value) &&
    expressions.every((expression) => isJsonObject(expression) && expressionMatches(expression, labels));
}

function expressionMatches(expression: Readonly<Record<string, unknown>>, labels: Readonly<Record<string, string>>): boolean {
  const key = expression["key"];
  if (typeof key !== "string") return false;
  const value = Object.hasOwn(labels, key) ? labels[key] : undefined;
  const values: readonly unknown[] = Array.isArray(expression["values"]) ? expression["values"] : [];
  switch (expression["operator"]) {
    case "In":
      return value !== undefined && values.includes(value);
    case "NotIn":
      return value === undefined || !values.includes(value);
    case "Exists":
      return value !== undefined;
    case "DoesNotExist":
      return value === undefined;
    default:
      return false;
  }
}
