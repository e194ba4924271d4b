import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createFastPathClient, type FastPathClient } from "../fastpath/client.ts";
import { fastPathTokenFile } from "../fastpath/fastpath-definition.ts";

/**
 * Where an operator kills itself, as by `kill -9`: before or after a write of a Sandbox to the API, or a create on an agent. `phase`:
 * only at the write of that phase.
 */
export interface DeathStage {
  readonly when: "before" | "after";
  readonly what: "create" | "applyStatus" | "agent";
  readonly phase?: string;
}

/** An operator in a process of its own. */
export interface OperatorProcess {
  readonly fastPath: FastPathClient["fastPath"];
  /** Resolves when it has ended, however. */
  readonly ended: Promise<unknown>;
  kill(): Promise<void>;
}

/** The operator against a served API. Needs the build. */
const program = `
  import { connect } from "@keelson/client";
  import { startOperator } from "@keelson/operator";
  import { sandboxes } from ${JSON.stringify(new URL("../../dist/index.js", import.meta.url).href)};
  const [kubeconfig, dataDir, stage] = process.argv.slice(1);
  const { when, what, phase } = JSON.parse(stage);
  const fatal = (does) => async (...parameters) => {
    if (when === "before") process.kill(process.pid, "SIGKILL");
    const result = await does(...parameters);
    process.kill(process.pid, "SIGKILL");
    return result;
  };
  const real = await connect({ kubeconfig });
  const client = new Proxy(real, {
    get(target, name) {
      const value = target[name];
      if (typeof value !== "function") return value;
      const does = value.bind(target);
      if (name !== what) return does;
      return (...parameters) => {
        const [resource, object] = parameters;
        const isIt = resource.kind === "Sandbox" && (phase === undefined || object.status?.phase === phase);
        return (isIt ? fatal(does) : does)(...parameters);
      };
    },
  });
  const ask = globalThis.fetch;
  if (what === "agent") globalThis.fetch = (url, ...rest) => (String(url).endsWith("/agent/create") ? fatal(ask) : ask)(url, ...rest);
  const flags = { "fastpath-port": "0", "fastpath-orphan-timeout": "0s" };
  const running = await startOperator({ operator: sandboxes, client, dataDir, flags });
  process.stdout.write(running.endpoints.fastpath + "\\n");
  setInterval(() => {}, 1 << 30);
`;

/** Starts the operator; with a stage, it dies when it comes there. */
export async function startOperatorProcess(
  kubeconfig: string,
  dataDir: string,
  dieAt: Partial<DeathStage> = {},
): Promise<OperatorProcess> {
  const words = ["--input-type=module", "-e", program, kubeconfig, dataDir, JSON.stringify(dieAt)];
  const child: ChildProcess = spawn(process.execPath, words, {
    stdio: ["ignore", "pipe", "inherit"],
    cwd: new URL("../..", import.meta.url).pathname,
  });
  const ended = once(child, "exit");
  const [line] = (await once(child.stdout ?? process.stdin, "data")) as [Buffer];
  const token = readFileSync(fastPathTokenFile(dataDir), "utf8").trim();
  return {
    fastPath: createFastPathClient({ baseUrl: line.toString().trim(), token }).fastPath,
    ended,
    async kill() {
      child.kill("SIGKILL");
      await ended;
    },
  };
}
