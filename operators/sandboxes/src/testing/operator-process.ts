import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { currentBundle } from "@keelson/operator/bundle";
import { createFastPathClient, type FastPathClient } from "../fastpath/client.ts";
import { fastPathTokenFile } from "../fastpath/access/describe-access.ts";

/**
 * The point at which an operator kills itself with SIGKILL: before or after it writes a Sandbox, or creates one on an agent. `phase`
 * restricts it to writes of that phase.
 */
export interface DeathStage {
  readonly when: "before" | "after";
  readonly what: "create" | "applyStatus" | "agent";
  readonly phase?: string;
}

/** An operator in a child process. */
export interface OperatorProcess {
  readonly fastPath: FastPathClient["fastPath"];
  /** Resolves when it has exited. */
  readonly ended: Promise<unknown>;
  kill(): Promise<void>;
}

const built = new URL("../../dist/", import.meta.url);

/** Import specifier of a module in the bundle if that is current, otherwise of the module itself. The bundle loads in a third of the time. */
const specifier = (bundled: string, module: string): string =>
  JSON.stringify(currentBundle(new URL("bundle/", built), bundled) ?? module);

/** Runs the built operator against a served API. */
const program = `
  import https from "node:https";
  import { syncBuiltinESMExports } from "node:module";
  import { connect } from ${specifier("client.js", "@keelson/client")};
  import { startOperator } from ${specifier("start-operator.js", "@keelson/operator")};
  import { sandboxes } from ${specifier("operator.js", new URL("index.js", built).href)};
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
  if (what === "agent") {
    const request = https.request;
    https.request = (url, ...rest) => {
      const isIt = String(url).endsWith("/agent/create");
      if (isIt && when === "before") process.kill(process.pid, "SIGKILL");
      const sent = request(url, ...rest);
      if (isIt) sent.prependListener("response", () => process.kill(process.pid, "SIGKILL"));
      return sent;
    };
    syncBuiltinESMExports();
  }
  const flags = { "fastpath-port": "0", "fastpath-orphan-timeout": "0s" };
  const running = await startOperator({ operator: sandboxes, client, dataDir, flags });
  process.stdout.write(running.endpoints.fastpath + "\\n");
  setInterval(() => {}, 1 << 30);
`;

/** Starts the operator, which dies at the given point. */
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
