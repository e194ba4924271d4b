import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { promisify } from "node:util";

/** Minor version of the kubectl on PATH. Debian 12 has 20. */
export async function kubectlMinorVersion(): Promise<number> {
  const { stdout } = await promisify(execFile)("kubectl", ["version", "--client", "--output=json"]);
  const { clientVersion } = JSON.parse(stdout) as { readonly clientVersion: { readonly minor: string } };
  return Number.parseInt(clientVersion.minor, 10);
}

/**
 * Waits until a field of an object has a value, with `kubectl wait --for=jsonpath` (1.23 and newer) or `kubectl get -w`.
 *
 * @throws Error after one minute.
 */
export async function kubectlWaitForField(
  kubeconfig: string,
  objects: readonly string[],
  path: string,
  value: string,
): Promise<void> {
  if ((await kubectlMinorVersion()) >= 23) {
    const args = ["--kubeconfig", kubeconfig, "wait", ...objects, `--for=jsonpath={${path}}=${value}`, "--timeout=60s"];
    await promisify(execFile)("kubectl", args);
    return;
  }
  const args = ["--kubeconfig", kubeconfig, "get", ...objects, "-w", "-o", `jsonpath={${path}}{"\\n"}`];
  const watch = spawn("kubectl", args, { stdio: ["ignore", "pipe", "inherit"], timeout: 60_000 });
  const exited = once(watch, "exit");
  let hasMatched = false;
  for await (const line of createInterface({ input: watch.stdout })) {
    hasMatched ||= line === value;
    if (hasMatched) watch.kill();
  }
  await exited;
  if (!hasMatched) throw new Error(`${objects.join(" ")}: ${path} did not become ${value}`);
}
