import { readFile } from "node:fs/promises";
import { isJsonObject, type JsonObject } from "@keelson/api-machinery";
import {
  dns1123SubdomainFaults,
  invalidCause,
  notSupportedCause,
  requiredCause,
  type StatusCause,
  typeInvalidCause,
} from "@keelson/api-machinery/validation";
import { parse } from "yaml";
import { AuditError } from "./audit-error.ts";
import {
  auditLevels,
  type AuditPolicy,
  type AuditRule,
  auditStages,
  type AuditStage,
  type GroupResources,
} from "./audit-policy.ts";

/**
 * Reads an audit policy from a YAML or JSON file.
 *
 * **Errors**: rejects with an {@link AuditError} that names the file and the invalid fields.
 */
export async function readAuditPolicyFile(path: string): Promise<AuditPolicy> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    throw new AuditError("Unreadable", `could not read the audit policy ${path}: ${messageOf(error)}`, { cause: error });
  }
  let document: unknown;
  try {
    document = parse(text);
  } catch (error) {
    throw new AuditError("InvalidPolicy", `audit policy ${path} is not valid YAML: ${messageOf(error)}`, { cause: error });
  }
  try {
    return readAuditPolicy(document);
  } catch (error) {
    throw new AuditError("InvalidPolicy", `audit policy ${path}: ${messageOf(error)}`, { cause: error });
  }
}

/**
 * Reads an audit policy (audit.k8s.io/v1 Policy) with kube-apiserver's rules. Unknown fields are invalid too: a misspelled field of a
 * rule would make the rule match more than it says.
 *
 * **Errors**: throws an {@link AuditError} that names the invalid fields.
 */
export function readAuditPolicy(document: unknown): AuditPolicy {
  const reader = new PolicyReader();
  const policy = reader.read(document);
  const lines = reader.causes.map(({ field = "", message = "" }) => (field === "" ? message : `${field}: ${message}`));
  if (lines.length > 0) throw new AuditError("InvalidPolicy", lines.length === 1 ? (lines[0] ?? "") : `[${lines.join(", ")}]`);
  return policy;
}

const apiVersion = "audit.k8s.io/v1";
const policyFields = ["apiVersion", "kind", "metadata", "rules", "omitStages", "omitManagedFields"];
const ruleFields = [
  "level",
  "users",
  "userGroups",
  "verbs",
  "resources",
  "namespaces",
  "nonResourceURLs",
  "omitStages",
  "omitManagedFields",
];
const resourceFields = ["group", "resources", "resourceNames"];

/** Reads fields and collects what is wrong with them. */
class PolicyReader {
  readonly causes: StatusCause[] = [];

  read(document: unknown): AuditPolicy {
    const policy = this.#object("", document, policyFields);
    if (policy["apiVersion"] !== apiVersion) {
      this.causes.push(notSupportedCause("apiVersion", policy["apiVersion"] ?? "", [apiVersion]));
    }
    if (policy["kind"] !== "Policy") this.causes.push(notSupportedCause("kind", policy["kind"] ?? "", ["Policy"]));
    const rules = this.#list("rules", policy["rules"]).map((rule, index) => this.#rule(`rules[${index}]`, rule));
    if (policy["rules"] === undefined || (Array.isArray(policy["rules"]) && rules.length === 0)) {
      this.causes.push(requiredCause("rules", "must have at least one rule"));
    }
    return {
      rules,
      omitStages: this.#stages("omitStages", policy["omitStages"]),
      omitManagedFields: this.#flag("omitManagedFields", policy["omitManagedFields"]) ?? false,
    };
  }

  #rule(path: string, value: unknown): AuditRule {
    const rule = this.#object(path, value, ruleFields);
    const texts = (field: string): readonly string[] => this.#texts(`${path}.${field}`, rule[field]);
    const resources = this.#list(`${path}.resources`, rule["resources"]).map((each, index) =>
      this.#groupResources(`${path}.resources[${index}]`, each),
    );
    const namespaces = texts("namespaces");
    const nonResourceURLs = texts("nonResourceURLs");
    for (const [index, url] of nonResourceURLs.entries()) this.#checkUrl(`${path}.nonResourceURLs[${index}]`, url);
    if (nonResourceURLs.length > 0 && (resources.length > 0 || namespaces.length > 0)) {
      const detail = "rules cannot apply to both regular resources and non-resource URLs";
      this.causes.push(invalidCause(`${path}.nonResourceURLs`, nonResourceURLs, detail));
    }
    return {
      level: this.#level(`${path}.level`, rule["level"]),
      users: texts("users"),
      userGroups: texts("userGroups"),
      verbs: texts("verbs"),
      resources,
      namespaces,
      nonResourceURLs,
      omitStages: this.#stages(`${path}.omitStages`, rule["omitStages"]),
      omitManagedFields: this.#flag(`${path}.omitManagedFields`, rule["omitManagedFields"]),
    };
  }

  #groupResources(path: string, value: unknown): GroupResources {
    const object = this.#object(path, value, resourceFields);
    const group = this.#text(`${path}.group`, object["group"] ?? "");
    if (group !== "" && group !== "*") {
      for (const fault of dns1123SubdomainFaults(group)) this.causes.push(invalidCause(`${path}.group`, group, fault));
    }
    const resources = this.#texts(`${path}.resources`, object["resources"]);
    const resourceNames = this.#texts(`${path}.resourceNames`, object["resourceNames"]);
    if (resourceNames.length > 0 && resources.length === 0) {
      const detail = "using resourceNames requires at least one resource";
      this.causes.push(invalidCause(`${path}.resourceNames`, resourceNames, detail));
    }
    return { group, resources, resourceNames };
  }

  #level(path: string, value: unknown): AuditRule["level"] {
    const level = auditLevels.find((known) => known === value);
    if (level === undefined) {
      this.causes.push(value === undefined || value === "" ? requiredCause(path) : notSupportedCause(path, value, auditLevels));
    }
    return level ?? "None";
  }

  #stages(path: string, value: unknown): readonly AuditStage[] {
    return this.#texts(path, value).flatMap((text, index) => {
      const stage = auditStages.find((known) => known === text);
      if (stage !== undefined) return [stage];
      this.causes.push(invalidCause(`${path}[${index}]`, text, `allowed stages are ${auditStages.join(",")}`));
      return [];
    });
  }

  #checkUrl(path: string, url: string): void {
    if (url === "*") return;
    if (!url.startsWith("/")) {
      this.causes.push(invalidCause(path, url, "non-resource URL rules must begin with a '/' character"));
    }
    if (url.slice(0, -1).includes("*")) {
      this.causes.push(invalidCause(path, url, "non-resource URL wildcards '*' must be the final character of the rule"));
    }
  }

  #object(path: string, value: unknown, fields: readonly string[]): JsonObject {
    if (!isJsonObject(value)) {
      this.causes.push(typeInvalidCause(path, value, "must be an object"));
      return {};
    }
    for (const field of Object.keys(value)) {
      if (fields.includes(field)) continue;
      const at = path === "" ? field : `${path}.${field}`;
      this.causes.push({
        reason: "FieldValueForbidden",
        field: at,
        message: `unknown field; known fields are ${fields.join(", ")}`,
      });
    }
    return value;
  }

  #list(path: string, value: unknown): readonly unknown[] {
    if (value === undefined || value === null) return [];
    if (Array.isArray(value)) return value;
    this.causes.push(typeInvalidCause(path, value, "must be a list"));
    return [];
  }

  #texts(path: string, value: unknown): readonly string[] {
    return this.#list(path, value).map((text, index) => this.#text(`${path}[${index}]`, text));
  }

  #text(path: string, value: unknown): string {
    if (typeof value === "string") return value;
    this.causes.push(typeInvalidCause(path, value, "must be a string"));
    return "";
  }

  #flag(path: string, value: unknown): boolean | undefined {
    if (value === undefined || value === null) return undefined;
    if (typeof value !== "boolean") this.causes.push(typeInvalidCause(path, value, "must be a boolean"));
    return value === true;
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
