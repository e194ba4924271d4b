/** The gitVersion in `/version`: the Kubernetes version whose schemas and semantics are implemented. */
export const serverVersion = "v1.35.0+keelson";

/** The version without patch, as OpenAPI documents have it: `1.35`. */
export function shortVersion(gitVersion: string): string {
  return /^v(\d+\.\d+)/.exec(gitVersion)?.[1] ?? gitVersion;
}

/** `/version`: version.Info of apimachinery. */
export function versionInfo(gitVersion: string): object {
  const [, major = "1", minor = "0"] = /^v(\d+)\.(\d+)/.exec(gitVersion) ?? [];
  return {
    major,
    minor,
    emulationMajor: major,
    emulationMinor: minor,
    minCompatibilityMajor: major,
    minCompatibilityMinor: String(Math.max(Number(minor) - 1, 0)),
    gitVersion,
    gitCommit: "",
    gitTreeState: "clean",
    buildDate: "1970-01-01T00:00:00Z",
    goVersion: "",
    compiler: "",
    platform: "linux/amd64",
  };
}
