import { execFile } from "node:child_process";
import { setMaxListeners } from "node:events";
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Client } from "@keelson/client";
import type { Operator } from "@keelson/operator";
import { ensureSystemNamespace, prepareOperator } from "../local/access/operator-access.ts";
import { systemNamespace } from "../local/access/operator-user.ts";
import { type KeelsonProcess, startKeelson } from "./keelson-process.ts";
import type { TestKeelson } from "./local-keelson.ts";

/**
 * Grants an operator's service account exactly the permissions that it has on a cluster, and writes a kubeconfig with its token below
 * `dir`. Resolves to the path of the kubeconfig.
 */
export async function operatorKubeconfig(up: TestKeelson, admin: Client, operator: Operator, dir: string): Promise<string> {
  const signal = AbortSignal.timeout(90_000);
  // Every request of the preparation listens to it.
  setMaxListeners(0, signal);
  await ensureSystemNamespace(admin, signal);
  await prepareOperator(admin, { ...operator, localRules: [] }, signal);
  const token = await up.kubectl("create", "token", operator.name, "-n", systemNamespace);
  const kubeconfig = join(dir, `${operator.name}.kubeconfig`);
  copyFileSync(up.kubeconfig, kubeconfig);
  const config = async (...words: string[]): Promise<void> =>
    void (await promisify(execFile)("kubectl", ["--kubeconfig", kubeconfig, "config", ...words]));
  await config("set-credentials", operator.name, `--token=${token.trim()}`);
  await config("set-context", "--current", "--user", operator.name);
  return kubeconfig;
}

/** Starts `keelson operator` for one operator on free ports, with its files in `dir`/`name`. */
export function startOperatorProcess(operator: Operator, kubeconfig: string, dir: string, name = "operator"): KeelsonProcess {
  const ports = operator.servers
    .flatMap(({ flags = [] }) => flags)
    .filter((flag) => flag.value === "PORT" && flag.default !== undefined)
    .flatMap((flag) => [`--${flag.name}`, "0"]);
  return startKeelson([
    ...["operator", "--only", operator.name, "--kubeconfig", kubeconfig, "--data-dir", join(dir, name), ...ports],
    ...["--metrics-bind-address", "127.0.0.1:0", "--health-probe-bind-address", "127.0.0.1:0"],
  ]);
}
