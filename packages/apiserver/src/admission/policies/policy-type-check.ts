import { setImmediate as nextTurn } from "node:timers/promises";
import { type DeepReadonly, type JsonObject, type KubernetesObject, parseApiVersion } from "@keelson/api-machinery";
import type { Schema } from "@keelson/api-machinery/schema";
import { ExpressionTypeChecker } from "@keelson/api-machinery/server";
import { builtinKindSchema } from "../../registry/builtin/builtin-schemas.ts";
import { listAt, textAt, valueAt } from "../../registry/object-fields.ts";
import type { ResourceTable, ServedResource } from "../../registry/served-resource.ts";

/** A warning of status.typeChecking (admissionregistration/v1 ExpressionWarning). */
export interface ExpressionWarning extends JsonObject {
  readonly fieldRef: string;
  readonly warning: string;
}

/** As in kube-controller-manager. */
const maxTypes = 10;
const untyped = ["request", "namespaceObject", "authorizer", "variables"];

interface CheckedType {
  readonly title: string;
  readonly checker: ExpressionTypeChecker;
}

/**
 * Checks the validations and messages of a ValidatingAdmissionPolicy against the kinds that its rules name without wildcards. Yields to
 * the event loop after each kind, because declaring the types of one takes up to 100 ms.
 */
export async function checkPolicyTypes(
  policy: DeepReadonly<KubernetesObject>,
  resources: Pick<ResourceTable, "get" | "byKind">,
): Promise<readonly ExpressionWarning[]> {
  const params = paramsSchema(policy, resources);
  const types: CheckedType[] = [];
  for (const resource of matchedKinds(policy, resources)) {
    const { group, version, kind } = resource;
    const rest = params === undefined && valueAt(policy, "spec", "paramKind") !== undefined ? [...untyped, "params"] : untyped;
    const checker = new ExpressionTypeChecker({ object: completeSchema(resource), params, untyped: rest });
    types.push({ title: `${group}/${version}, Kind=${kind}`, checker });
    await nextTurn();
  }
  return listAt(policy, "spec", "validations").flatMap((validation, index) =>
    ["expression", "messageExpression"].flatMap((field) => {
      const expression = textAt(validation, field);
      const warning = expression === "" ? "" : warningOf(expression, types);
      return warning === "" ? [] : [{ fieldRef: `spec.validations[${index}].${field}`, warning }];
    }),
  );
}

function warningOf(expression: string, types: readonly CheckedType[]): string {
  return types
    .flatMap(({ title, checker }) => {
      const message = checker.check(expression);
      return message === undefined ? [] : [`${title}: ${message}\n`];
    })
    .join("\n");
}

/** The kinds of resources that the rules name, in the order of group, version and kind. */
function matchedKinds(policy: unknown, resources: Pick<ResourceTable, "get">): readonly ServedResource[] {
  const found = new Set<ServedResource>();
  for (const rule of listAt(policy, "spec", "matchConstraints", "resourceRules")) {
    const names = (field: string): readonly string[] => listAt(rule, field).map(String).sort();
    const [groups, versions] = [names("apiGroups"), names("apiVersions")];
    if ([...groups, ...versions].some((name) => name.includes("*"))) continue;
    const plurals = names("resources").filter((name) => !/[*/]/.test(name));
    for (const group of groups) {
      for (const version of versions) {
        for (const plural of plurals) {
          const resource = resources.get(group, version, plural);
          if (resource !== undefined) found.add(resource);
        }
      }
    }
  }
  const idOf = ({ group, version, kind }: ServedResource): string => `${group}/${version}/${kind}`;
  return [...found].slice(0, maxTypes).sort((a, b) => (idOf(a) < idOf(b) ? -1 : 1));
}

function paramsSchema(policy: unknown, resources: Pick<ResourceTable, "byKind">): Schema | undefined {
  const kind = valueAt(policy, "spec", "paramKind");
  const { group, version } = parseApiVersion(textAt(kind, "apiVersion"));
  const resource = resources.byKind(group, version, textAt(kind, "kind"));
  return resource && completeSchema(resource);
}

/** The schema of a kind with all of metadata, which schemas of CustomResourceDefinitions do not describe. */
function completeSchema({ schema, origin }: ServedResource): Schema {
  if (origin === "builtin") return schema;
  const { apiVersion, kind, metadata } = builtinKindSchema("", "v1", "ConfigMap")?.properties ?? {};
  return {
    ...schema,
    properties: {
      ...schema.properties,
      ...(apiVersion === undefined ? {} : { apiVersion }),
      ...(kind === undefined ? {} : { kind }),
      ...(metadata === undefined ? {} : { metadata }),
    },
  };
}
