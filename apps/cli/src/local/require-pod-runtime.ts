import type { PodRuntimes } from "@keelson/cluster";
import { UsageError } from "@keelson/operator/flags";
import type { PodRuntimeName } from "./pod-runtime-flag.ts";

/** Rejects a default runtime that the machine does not have; containerd may start later. Throws a {@link UsageError}. */
export function requirePodRuntime(name: PodRuntimeName, { names }: PodRuntimes): void {
  if (name === "containerd" || names.includes(name)) return;
  throw new UsageError(
    `--pod-runtime: ${name} is not available on this machine: install it, or choose ${names.length === 0 ? "another one" : `one of ${names.join(", ")}`}`,
  );
}
