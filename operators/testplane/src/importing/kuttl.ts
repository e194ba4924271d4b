import { isJsonObject } from "@keelson/api-machinery";
import { group, version } from "../api/names.ts";
import { matchesCel } from "./cel-text.ts";
import { ConversionError, ProblemList } from "./problem-list.ts";
import type { ConversionOptions, ConvertedTest, SourceFile } from "./source-files.ts";
import {
  contentOf,
  describeObject,
  metadataOf,
  objectName,
  objectOf,
  referenceOf,
  selectorOf,
  StepList,
  timeoutOf,
} from "./step-list.ts";

type Json = Readonly<Record<string, unknown>>;

/** File of a step of kuttl: its number, and `assert` or `errors`. */
const fileName = /^(\d+)-(.+)\.ya?ml$/;

/** Whether a file belongs to a step of kuttl. */
export const isKuttlFile = (name: string): boolean => fileName.test(name);

/** Default timeout of assertions in kuttl. */
const defaultSeconds = 30;

/** What a file of a step is about: a name such as `assert-deployment` is an assertion, in any case. */
function roleOf(name: string): "apply" | "asserts" | "errors" {
  const [kind] = name.toLowerCase().split("-", 1);
  return kind === "assert" ? "asserts" : kind === "errors" ? "errors" : "apply";
}

interface KuttlStep {
  readonly number: number;
  readonly name: string;
  readonly apply: Json[];
  readonly asserts: Json[];
  readonly errors: Json[];
  readonly steps: Json[];
}

/** Converts the directory of a test of kuttl. What has no counterpart is left out and named in `problems`. */
export function convertKuttl(path: string, files: readonly SourceFile[], options: ConversionOptions): ConvertedTest {
  const list = new ProblemList();
  const steps = new StepList();
  for (const step of stepsOf(files, list)) convertStep(step, steps, list);
  if (steps.steps.length === 0) list.problem(path, "nothing is left to run");
  const { serviceAccount } = options;
  if (serviceAccount === undefined)
    list.remark("the test runs in the namespace of the command; --service-account gives it one of its own");
  const test = {
    apiVersion: `${group}/${version}`,
    kind: "IntegrationTest",
    metadata: { name: objectName(path.split("/").at(-1) ?? path) },
    spec: {
      ...(serviceAccount === undefined ? {} : { serviceAccountName: serviceAccount, isolatedNamespace: true }),
      steps: steps.steps,
    },
  };
  return { path, test, problems: list.problems, remarks: list.remarks };
}

/** The files of each step, in order. */
function stepsOf(files: readonly SourceFile[], list: ProblemList): readonly KuttlStep[] {
  const steps = new Map<number, KuttlStep>();
  for (const file of files) {
    const [, digits, name = ""] = fileName.exec(file.name) ?? [];
    if (digits === undefined) continue;
    const number = Number(digits);
    const role = roleOf(name);
    const before = steps.get(number);
    const step = before ?? { number, name: String(number), apply: [], asserts: [], errors: [], steps: [] };
    steps.set(number, role !== "apply" ? step : { ...step, name: `${number} ${name}` });
    if (file.error !== undefined) list.problem(file.name, file.error);
    for (const document of file.documents) {
      if (!isJsonObject(document)) continue;
      const isOwn = String(document["apiVersion"]).startsWith("kuttl.dev/");
      if (isOwn && document["kind"] === "TestFile") list.problem(file.name, "TestFile is not converted");
      else if (isOwn) step.steps.push(document);
      else step[role].push(document);
    }
  }
  return [...steps.values()].toSorted((a, b) => a.number - b.number);
}

function convertStep({ name, apply, asserts, errors, steps: own }: KuttlStep, steps: StepList, list: ProblemList): void {
  const prefix = `${name}: `;
  const timeout = timeoutOf(own.find(({ timeout: each }) => each !== undefined)?.["timeout"], defaultSeconds);
  for (const { delete: deletions } of own)
    for (const each of arrayOf(deletions))
      list.attempt(`${prefix}delete`, () =>
        steps.add(`${prefix}delete ${describeObject(each)}`, { delete: { object: referenceOf(each) } }),
      );
  for (const step of own) convertFields(step, prefix, list);
  for (const { kind, commands } of own)
    if (kind === "TestStep")
      for (const each of arrayOf(commands)) list.attempt(`${prefix}commands`, () => runs(each, prefix, steps));
  const [first] = apply;
  if (first !== undefined) {
    const more = apply.length > 1 ? ` and ${apply.length - 1} more` : "";
    steps.add(`${prefix}apply ${describeObject(first)}${more}`, { apply: { manifests: apply } });
  }
  for (const each of asserts) list.attempt(`${prefix}assert`, () => asserted(each, prefix, steps, timeout));
  for (const each of errors) list.attempt(`${prefix}errors`, () => absent(each, prefix, steps, timeout));
  for (const { kind, commands } of own)
    if (kind === "TestAssert")
      for (const each of arrayOf(commands)) list.attempt(`${prefix}assert commands`, () => runs(each, prefix, steps, 5));
}

const arrayOf = (value: unknown): readonly Json[] => (Array.isArray(value) ? value.filter(isJsonObject) : []);

/** Fields of TestStep and TestAssert that have no counterpart. */
function convertFields(step: Json, prefix: string, list: ProblemList): void {
  for (const field of ["apply", "assert", "error", "unitTest", "kubeconfig", "context"])
    if (step[field] !== undefined) list.problem(`${prefix}${field}`, "has no counterpart");
  if (step["collectors"] !== undefined) list.remark("collectors are left out: the failure bundle has objects, events and logs");
}

function asserted(object: Json, prefix: string, steps: StepList, timeout: Json): void {
  const matches = contentOf(objectOf(object));
  steps.add(`${prefix}assert ${describeObject(object)}`, {
    resource: { selector: selectorOf(object) },
    ...timeout,
    expectations: { allOf: [Object.keys(matches).length === 0 ? { function: "ResourceExists" } : { matches }] },
  });
}

function absent(object: Json, prefix: string, steps: StepList, timeout: Json): void {
  const content = contentOf(objectOf(object));
  const cel =
    Object.keys(content).length === 0
      ? "objects.size() == 0"
      : `objects.size() == 0 || objects.all(each, !(${matchesCel("each", content)}))`;
  const { name } = metadataOf(object);
  steps.add(`${prefix}no ${String(object["kind"])}${typeof name === "string" ? ` ${name}` : ""}`, {
    resource: { selector: selectorOf(object) },
    ...timeout,
    expectations: { allOf: [{ cel }] },
  });
}

/** A command or a script. Those of an assertion are repeated. */
function runs(step: Json, prefix: string, steps: StepList, retries = 0): void {
  const { script, command, namespaced, timeout, ignoreFailure, background } = step;
  if (background === true) throw new ConversionError("programs in the background have no counterpart");
  const text = typeof script === "string" ? script : typeof command === "string" ? command : undefined;
  if (text === undefined) throw new ConversionError("must have a script or a command");
  const content = namespaced === true ? `${text} --namespace "$NAMESPACE"` : text;
  steps.add(`${prefix}run ${text.split("\n", 1)[0]?.slice(0, 60) ?? ""}`, {
    script: { content },
    ...timeoutOf(timeout),
    ...(retries === 0 ? {} : { retries }),
    ...(ignoreFailure === true ? { expectations: { allOf: [{ cel: "result.exitCode >= 0" }] } } : {}),
  });
}
