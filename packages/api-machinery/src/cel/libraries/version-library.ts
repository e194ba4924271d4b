import type { Environment } from "@marcbachmann/cel-js";
import { CelError } from "../cel-error.ts";
import { parseTolerantly, parseVersion, SemanticVersion } from "./semantic-version.ts";

/** Registers Kubernetes' CEL functions on semantic versions. */
export function registerVersionLibrary(environment: Environment): void {
  const parse = (text: string, isTolerant: boolean): SemanticVersion =>
    isTolerant ? parseTolerantly(text) : parseVersion(text);
  environment
    .registerType("kubernetes.Semver", SemanticVersion)
    .registerFunction("semver(string): kubernetes.Semver", parseVersion)
    .registerFunction("semver(string, bool): kubernetes.Semver", parse)
    .registerFunction("isSemver(string): bool", (text: string) => isVersion(() => parseVersion(text)))
    .registerFunction("isSemver(string, bool): bool", (text: string, isTolerant: boolean) =>
      isVersion(() => parse(text, isTolerant)),
    )
    .registerFunction("kubernetes.Semver.major(): int", ({ numbers }: SemanticVersion) => numbers[0])
    .registerFunction("kubernetes.Semver.minor(): int", ({ numbers }: SemanticVersion) => numbers[1])
    .registerFunction("kubernetes.Semver.patch(): int", ({ numbers }: SemanticVersion) => numbers[2])
    .registerFunction("kubernetes.Semver.compareTo(kubernetes.Semver): int", (a: SemanticVersion, b: SemanticVersion) =>
      BigInt(a.compare(b)),
    )
    .registerFunction(
      "kubernetes.Semver.isLessThan(kubernetes.Semver): bool",
      (a: SemanticVersion, b: SemanticVersion) => a.compare(b) < 0,
    )
    .registerFunction(
      "kubernetes.Semver.isGreaterThan(kubernetes.Semver): bool",
      (a: SemanticVersion, b: SemanticVersion) => a.compare(b) > 0,
    )
    .registerOperator("kubernetes.Semver == kubernetes.Semver", (a: SemanticVersion, b: SemanticVersion) => a.compare(b) === 0);
}

function isVersion(parse: () => unknown): boolean {
  try {
    parse();
    return true;
  } catch (error) {
    if (error instanceof CelError) return false;
    throw error;
  }
}
