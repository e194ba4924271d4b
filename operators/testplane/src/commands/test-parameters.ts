import { setOwn } from "@keelson/api-machinery";
import type { FlagValues } from "@keelson/operator";
import { invalidFlag, pairsFlag, UsageError } from "@keelson/operator/flags";
import type { TestManifest } from "./test-files.ts";

/** `--param` of commands that run tests. */
export const parameterFlag = pairsFlag({
  name: "param",
  value: "NAME=VALUE",
  description: "parameter of the tests that declare it; values of other types than string are JSON",
});

/**
 * Sets the parameters of `--param` in the tests that declare them. They take precedence over `spec.parameterValues`, and scenarios over
 * them. **Errors**: `UsageError` for a parameter that no test declares, or for a value that is not JSON.
 */
export function withParameters(manifests: readonly TestManifest[], flags: FlagValues): readonly TestManifest[] {
  const passed = parameterFlag.read(flags);
  if (passed.length === 0) return manifests;
  const declared = new Set(manifests.flatMap((manifest) => parametersOf(manifest).map(({ name }) => name)));
  for (const [name] of passed) {
    if (declared.has(name)) continue;
    const known = declared.size === 0 ? "no test has parameters" : `must be one of ${[...declared].sort().join(", ")}`;
    throw new UsageError(`--param: ${name}: unknown parameter: ${known}`);
  }
  return manifests.map((manifest) => {
    if (manifest.kind !== "IntegrationTest" || parametersOf(manifest).length === 0) return manifest;
    const parameterValues: Record<string, unknown> = { ...manifest.spec.parameterValues };
    for (const { name, type = "string" } of parametersOf(manifest))
      for (const [key, text] of passed)
        if (key === name) setOwn(parameterValues, name, type === "string" ? text : jsonOf(name, type, text));
    return { ...manifest, spec: { ...manifest.spec, parameterValues } };
  });
}

/** The parameters that a test declares. A malformed list counts as empty: the API server reports it. */
function parametersOf(manifest: TestManifest) {
  const parameters = manifest.kind === "IntegrationTest" ? manifest.spec?.parameters : undefined;
  return Array.isArray(parameters) ? parameters.filter((each) => typeof each === "object" && each !== null) : [];
}

function jsonOf(name: string, type: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw invalidFlag(parameterFlag, `${name}=${text}`, `must be of type ${type}, as JSON`);
  }
}
