import { isJsonObject } from "@keelson/api-machinery";
import { convertAssertion, convertTemplate, expressionOf, hasExpression } from "./assertion-tree.ts";
import { convertProgram } from "./chainsaw-programs.ts";
import { outputsOf } from "./chainsaw-outputs.ts";
import { celLiteral, matchesCel } from "./cel-text.ts";
import { jmesPathToCel, type Variables } from "./jmespath-to-cel.ts";
import { ConversionError } from "./problem-list.ts";
import type { OperationScope } from "./operation-scope.ts";
import { contentOf, describeObject, metadataOf, objectOf, referenceOf, selectorOf, timeoutOf, textOf } from "./step-list.ts";

type Json = Readonly<Record<string, unknown>>;

type Convert = (operation: Json, prefix: string, scope: OperationScope) => void;

/** Default timeout of assertions in chainsaw. */
const assertTimeout = "30s";

/** Operations that only print. A failure bundle has what they print. */
const printing = new Set(["podLogs", "events", "describe", "get"]);

/** Kinds of operations. */
const converters: Readonly<Record<string, Convert>> = {
  apply: (operation, prefix, scope) => convertWrite("apply", operation, prefix, scope),
  create: (operation, prefix, scope) => convertWrite("create", operation, prefix, scope),
  update: convertUpdate,
  patch: convertPatch,
  delete: convertDelete,
  assert: convertAssert,
  error: convertError,
  wait: convertWait,
  sleep: (operation, prefix, { steps }) => steps.add(`${prefix}sleep`, { sleep: textOf(operation["duration"], "duration") }),
  script: convertProgram,
  command: convertProgram,
};

/** Converts an operation of a step, and adds its steps. Adds a problem if it cannot be converted. */
export function convertOperation(operation: unknown, prefix: string, before: OperationScope): void {
  if (!isJsonObject(operation)) return;
  const [kind] = Object.keys(operation).filter((key) => !["description", "compiler", "bindings", "outputs"].includes(key));
  const value = kind === undefined ? undefined : operation[kind];
  if (kind === undefined) return;
  if (printing.has(kind)) return before.list.remark(`${kind} is left out: the failure bundle has objects, events and logs`);
  const where = `${prefix}${kind}`;
  const convert = Object.hasOwn(converters, kind) ? converters[kind] : undefined;
  if (convert === undefined || !isJsonObject(value)) return before.list.problem(where, "this operation has no counterpart");
  if (operation["compiler"] !== undefined) return before.list.problem(where, "only expressions in JMESPath are converted");
  const { bindings = operation["bindings"], cluster = before.cluster } = value;
  before.list.attempt(where, () => {
    // What an operation outputs is visible to the next ones; its bindings are not.
    const scope = inCluster(cluster, { ...before, variables: new Map(before.variables) });
    bind(bindings, scope.variables);
    convert({ ...value, outputs: value["outputs"] ?? operation["outputs"] }, prefix, scope);
    for (const name of scope.outputs) before.variables.set(name, `outputs.${name}`);
  });
}

/** The scope of an operation in a cluster. **Errors**: a {@link ConversionError} if its name cannot be the name of a cluster. */
function inCluster(cluster: unknown, scope: OperationScope): OperationScope {
  if (cluster === undefined) return scope;
  if (typeof cluster !== "string" || !/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(cluster))
    throw new ConversionError(`cluster: ${JSON.stringify(cluster)} is not a valid DNS label; rename the cluster`);
  const add: OperationScope["steps"]["add"] = (name, step) => {
    if (step["script"] !== undefined) throw new ConversionError("scripts run only in the test's own cluster");
    scope.clusters.add(cluster);
    scope.steps.add(name, { cluster, ...step });
  };
  return { ...scope, steps: { add } };
}

/** Adds bindings to variables, as CEL. **Errors**: a {@link ConversionError} for an expression without a counterpart. */
export function bind(bindings: unknown, variables: Map<string, string>): void {
  if (!Array.isArray(bindings)) return;
  for (const binding of bindings as readonly unknown[]) {
    if (!isJsonObject(binding) || typeof binding["name"] !== "string" || expressionOf(binding["name"]) !== undefined)
      throw new ConversionError("names of bindings cannot be expressions");
    variables.set(binding["name"], celOf(binding["value"], variables));
  }
}

/** CEL of a value, which may be an expression. */
function celOf(value: unknown, variables: Variables): string {
  const source = expressionOf(value);
  if (source !== undefined) return `(${jmesPathToCel(source, { variables, root: undefined })})`;
  if (hasExpression(value)) throw new ConversionError("expressions within bindings are not converted");
  return celLiteral(value);
}

/** The manifests of an operation, with their expressions converted. */
function manifestsOf({ resource, file }: Json, { source, variables }: OperationScope): readonly Json[] {
  const convert = (value: unknown): Json => objectOf(convertTemplate(value, variables));
  if (resource !== undefined) return [convert(resource)];
  if (typeof file !== "string" || /[*?[(]|^https?:/.test(file))
    throw new ConversionError("only files with a fixed relative path are read");
  const documents = source.read(file);
  if (documents === undefined) throw new ConversionError(`${file} cannot be read`);
  const manifests = documents.filter((each) => each !== null && each !== undefined).map(convert);
  if (manifests.length === 0) throw new ConversionError(`${file}: contains no object`);
  return manifests;
}

function convertWrite(action: "apply" | "create", operation: Json, prefix: string, scope: OperationScope): void {
  const manifests = manifestsOf(operation, scope);
  if (operation["dryRun"] === true) throw new ConversionError("dryRun has no counterpart");
  const [first = {}] = manifests;
  const more = manifests.length > 1 ? ` and ${manifests.length - 1} more` : "";
  scope.steps.add(`${prefix}${action} ${describeObject(first)}${more}`, {
    [action]: { manifests },
    ...timeoutOf(operation["timeout"], scope.timeouts["apply"]),
    ...expectedError(operation["expect"]),
    ...outputsOf(operation["outputs"], "object", scope),
  });
}

/** Server-side apply removes the fields that the test applied before. */
function convertUpdate(operation: Json, prefix: string, scope: OperationScope): void {
  scope.list.remark("update becomes apply, which keeps the fields that others have set");
  convertWrite("apply", operation, prefix, scope);
}

/** `expectError` of the expectations of an operation. */
function expectedError(expect: unknown): Json {
  if (!Array.isArray(expect) || expect.length === 0) return {};
  const [{ match, check } = {} as Json, ...more] = expect as readonly Json[];
  const [[key, value] = [], ...others] = isJsonObject(check) ? Object.entries(check) : [];
  const condition = key === undefined ? undefined : expressionOf(key)?.replaceAll(" ", "");
  if (more.length === 0 && match === undefined && others.length === 0) {
    if (condition === "$error!=null" && value === true) return { expectError: {} };
    if ((condition === "$error==null" && value === true) || (condition === "$error" && value === null)) return {};
  }
  throw new ConversionError("expect: only ($error != null) is converted; see expectError");
}

function convertPatch(operation: Json, prefix: string, scope: OperationScope): void {
  for (const manifest of manifestsOf(operation, scope)) {
    const { subresource } = operation;
    const { apiVersion: _, kind: __, metadata: ___, ...rest } = manifest;
    const { name: ____, namespace: _____, ...metadata } = metadataOf(manifest);
    scope.steps.add(`${prefix}patch ${describeObject(manifest)}`, {
      patch: {
        object: referenceOf(manifest),
        ...(typeof subresource === "string" ? { subresource } : {}),
        body: { ...(Object.keys(metadata).length === 0 ? {} : { metadata }), ...rest },
      },
      ...timeoutOf(operation["timeout"], scope.timeouts["apply"]),
      ...expectedError(operation["expect"]),
    });
  }
}

function convertDelete(operation: Json, prefix: string, scope: OperationScope): void {
  const { ref, deletionPropagationPolicy } = operation;
  const objects = ref === undefined ? manifestsOf(operation, scope) : [objectOf(convertTemplate(ref, scope.variables))];
  for (const object of objects) {
    scope.steps.add(`${prefix}delete ${describeObject(object)}`, {
      delete: {
        object: referenceOf(object),
        ...(typeof deletionPropagationPolicy === "string" ? { propagationPolicy: deletionPropagationPolicy } : {}),
      },
      ...timeoutOf(operation["timeout"], scope.timeouts["delete"]),
      ...expectedError(operation["expect"]),
    });
  }
}

/** Documents of an assertion, which may have expressions. */
function assertedOf({ resource, file }: Json, { source }: OperationScope): readonly Json[] {
  const documents = typeof file === "string" ? source.read(file) : [resource];
  if (documents === undefined) throw new ConversionError(`${String(file)} cannot be read`);
  const objects = documents.filter(isJsonObject);
  if (objects.length === 0) throw new ConversionError(`${typeof file === "string" ? file : "resource"}: contains no object`);
  return objects;
}

function convertAssert(operation: Json, prefix: string, scope: OperationScope): void {
  const { variables, steps, timeouts } = scope;
  for (const asserted of assertedOf(operation, scope)) {
    const timeout = timeoutOf(operation["timeout"], timeouts["assert"], assertTimeout);
    if (asserted["kind"] === undefined) {
      const { cel } = convertAssertion(asserted, { variables, root: undefined });
      if (cel.length === 0) throw new ConversionError("must have at least one check");
      steps.add(`${prefix}assert`, { ...timeout, expectations: { allOf: cel.map((each) => ({ cel: each })) } });
      continue;
    }
    const named = { ...asserted, metadata: convertTemplate(metadataOf(asserted), variables) };
    const { matches, cel } = convertAssertion(contentOf(named), { variables, root: "object" });
    const allOf = [...(matches === undefined ? [] : [{ matches }]), ...cel.map((each) => ({ cel: each }))];
    steps.add(`${prefix}assert ${describeObject(named)}`, {
      resource: { selector: selectorOf(named) },
      ...timeout,
      expectations: { allOf: allOf.length === 0 ? [{ function: "ResourceExists" }] : allOf },
    });
  }
}

function convertError(operation: Json, prefix: string, scope: OperationScope): void {
  const { variables, steps, timeouts } = scope;
  for (const asserted of assertedOf(operation, scope)) {
    const timeout = timeoutOf(operation["timeout"], timeouts["error"], assertTimeout);
    if (asserted["kind"] === undefined) throw new ConversionError("must be an object with apiVersion and kind");
    const named = { ...asserted, metadata: convertTemplate(metadataOf(asserted), variables) };
    const { matches, cel } = convertAssertion(contentOf(named), { variables, root: "each" });
    const conditions = [...(matches === undefined ? [] : [matchesCel("each", matches)]), ...cel];
    const absent =
      conditions.length === 0
        ? "objects.size() == 0"
        : `objects.size() == 0 || objects.all(each, !(${conditions.join(" && ")}))`;
    steps.add(`${prefix}no ${describeObject(named)}`, {
      resource: { selector: selectorOf(named) },
      ...timeout,
      expectations: { allOf: [{ cel: absent }] },
    });
  }
}

function convertWait(operation: Json, prefix: string, scope: OperationScope): void {
  const object = objectOf(convertTemplate(operation, scope.variables));
  const { for: goal } = object;
  if (object["name"] === undefined && object["selector"] !== undefined)
    throw new ConversionError("selectors as text are not converted");
  const waitsForDeletion = isJsonObject(goal) && goal["deletion"] !== undefined;
  if (object["name"] === undefined && !waitsForDeletion)
    throw new ConversionError(
      "a wait for all objects has no counterpart: one object that satisfies the checks would be enough",
    );
  scope.steps.add(`${prefix}wait for ${describeObject(object)}`, {
    resource: { selector: selectorOf(object) },
    ...timeoutOf(operation["timeout"], scope.timeouts["exec"]),
    expectations: { allOf: [goalOf(isJsonObject(goal) ? goal : {})] },
  });
}

/** The expectation of a wait. */
function goalOf({ condition, creation, deletion, jsonPath }: Json): Json {
  if (deletion !== undefined) return { function: "ResourceNotExists" };
  if (creation !== undefined) return { function: "ResourceExists" };
  if (isJsonObject(jsonPath) && typeof jsonPath["path"] === "string") {
    const path = jsonPath["path"].replace(/^\{(.*)\}$/, "$1");
    const { value } = jsonPath;
    return { jsonPath: { path, ...(value === undefined ? {} : { value }) } };
  }
  if (!isJsonObject(condition) || typeof condition["name"] !== "string") throw new ConversionError("for: has no counterpart");
  const { name: type, value = "true" } = condition;
  if (String(value).toLowerCase() === "true") return { function: "ConditionTrue", params: { type } };
  const status = String(value).toLowerCase();
  return { cel: `object.status.conditions.exists(c, c.type == '${String(type)}' && c.status.lowerAscii() == '${status}')` };
}
